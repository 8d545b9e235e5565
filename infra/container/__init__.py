"""What the container image is made with; `Dockerfile` and `docker-compose.yml` are at the top."""
