"""The ops page of a worker: access, what is kept, the API on a real worker, and the browser."""
