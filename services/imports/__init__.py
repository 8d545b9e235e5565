"""Files of other memory servers: read line by line, and written."""
