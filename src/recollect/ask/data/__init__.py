"""Tables of every session for analytic engines: Parquet files by day, SQL over them, Iceberg on a team server."""
