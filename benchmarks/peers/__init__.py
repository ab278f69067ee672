"""The queues that are measured beside each other, each in a folder of its own."""
