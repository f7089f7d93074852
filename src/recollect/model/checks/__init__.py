"""What is wrong with a session, from its lines in memory: ``rules`` names every code, ``scan`` runs all checks of a log.

``lines`` and ``chain`` look at bytes, links, times and calls, ``api_400`` at what the API would refuse. Nothing here opens a file.
"""
