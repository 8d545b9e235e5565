"""A vector store on a server that several processes share: opened, fed, made anew."""
