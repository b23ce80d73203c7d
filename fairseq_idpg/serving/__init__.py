"""Predictions over HTTP, for ``python -m fairseq_idpg.serve``.

A request becomes a ``Question``; one thread of a ``Batcher`` answers those that wait, together; ``app`` has the routes
and counts, ``http`` is the server below it, and page.html is for trying it in a browser.
"""
