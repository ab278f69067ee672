"""Claims jobs: the fetch loop, the buffer, NOTIFY, the on-call worker, and direct hand-offs."""
