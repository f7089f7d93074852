"""An organisation's data as Iceberg tables for analytic engines."""
