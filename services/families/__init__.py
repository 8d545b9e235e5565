"""The tool families there are. To add one, write its folders and list it here."""

from mnemolog.services.families import episodes, graph, robot

FAMILIES = (robot.LISTED, graph.LISTED, episodes.LISTED)
