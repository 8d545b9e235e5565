"""Files of other memory servers, brought into the graph."""
