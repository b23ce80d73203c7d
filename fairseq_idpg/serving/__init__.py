"""What was trained, over HTTP: for ``python -m fairseq_idpg.serve``.

A request becomes a ``Question``; a ``Batcher`` has one thread answer those that wait, together; ``app`` has the routes
and counts, ``http`` is the server below it, and page.html with its script is for trying it in a browser.
"""
