"""The measured queues, each in a folder of its own."""
