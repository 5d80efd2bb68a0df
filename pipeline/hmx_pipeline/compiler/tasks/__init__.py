"""Task learning by counting: which runs belong to one task, and the procedure that they share."""
