"""The robot family: seven tools, and one of the service's own that brings late vectors."""

from __future__ import annotations

from mnemolog.events import robot
from mnemolog.projections.state.robot import robot_space
from mnemolog.services.decider.robot import embed, memories, sessions
from mnemolog.services.decider.tool import Place, Tool


def _in_collection(
    tenant: str, args: robot.Learn | robot.Recall | robot.SavePerception | robot.StartSession
) -> Place:
    return Place(robot_space(tenant, args.collection))


def _of_memory(tenant: str, args: robot.Forget | robot.Update) -> Place:
    return Place(f"{tenant}/robot", number=args.memory_id)


def _of_session(tenant: str, args: robot.EndSession) -> Place:
    return Place(f"{tenant}/robot", session=args.session_id)


TOOLS = (
    Tool(
        name="learn",
        arguments=robot.Learn,
        place=_in_collection,
        decide=memories.decide_learn,
        texts=memories.learn_texts,
    ),
    Tool(
        name="recall",
        arguments=robot.Recall,
        place=_in_collection,
        decide=memories.decide_recall,
        answer=memories.answer_recall,
    ),
    Tool(
        name="save_perception",
        arguments=robot.SavePerception,
        place=_in_collection,
        decide=memories.decide_save_perception,
        texts=memories.perception_texts,
    ),
    Tool(
        name="forget",
        arguments=robot.Forget,
        place=_of_memory,
        decide=memories.decide_forget,
        destructive=True,
    ),
    Tool(
        name="update",
        arguments=robot.Update,
        place=_of_memory,
        decide=memories.decide_update,
        texts=memories.update_texts,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="start_session",
        arguments=robot.StartSession,
        place=_in_collection,
        decide=sessions.decide_start_session,
    ),
    Tool(
        name="end_session",
        arguments=robot.EndSession,
        place=_of_session,
        decide=sessions.decide_end_session,
        heavy=True,
    ),
    Tool(
        name=embed.NAME,
        arguments=embed.EmbedMissing,
        place=embed.place,
        decide=embed.decide_embed,
        texts=embed.texts,
        internal=True,
        heavy=True,
    ),
)
