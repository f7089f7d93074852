"""The index: one SQLite file about the logs, without their text. It can be deleted and rebuilt at any time.

``access`` opens it and brings it up to date: ``comparison`` looks for changed logs, ``extraction`` turns their lines into
frames, ``ingest`` writes these to the tables of ``schema``. Modules named after what is asked (``catalogue``,
``cost_queries``, ``text_queries``, ...) only read. Open ``schema`` first. Nothing here changes a log or knows a price.
"""
