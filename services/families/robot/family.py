"""The robot family, put together: seven tools, and one of the service's own for late vectors."""

from __future__ import annotations

import msgspec

from mnemolog.events import robot
from mnemolog.events.arguments import Name
from mnemolog.projections.robot import PROJECTION, state
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Place, adds, destroys, reads
from mnemolog.services.families.robot import INTRODUCTION, NAME
from mnemolog.services.families.robot.answering.recall import answer_recall
from mnemolog.services.families.robot.deciding import access, embed, memories, sessions
from mnemolog.services.families.robot.prompts import COLLECTION, PROMPTS
from mnemolog.services.families.robot.rules import RobotRules
from mnemolog.services.families.robot.told import THINGS
from mnemolog.services.family import Family, Spaces
from mnemolog.services.late import Sweep, Swept


def _in_collection(
    tenant: str, args: robot.Learn | robot.Recall | robot.SavePerception | robot.StartSession
) -> Place:
    return Place(state.robot_space(tenant, args.collection))


def _of_memory(tenant: str, args: robot.Forget | robot.Update) -> Place:
    return Place(f"{tenant}/robot", number=args.memory_id)


def _of_session(tenant: str, args: robot.EndSession) -> Place:
    return Place(f"{tenant}/robot", session=args.session_id)


def _space_named(tenant: str, name: str) -> str | None:
    family, _, collection = name.partition("/")
    if family != NAME:
        return None
    try:
        return state.robot_space(tenant, msgspec.convert(collection, Name))
    except msgspec.ValidationError:
        return None


def _without_vector(view: View, model: str, after: int, limit: int) -> list[Swept]:
    return [Swept(*row) for row in state.without_vector(view, model, after, limit)]


TOOLS = (
    adds(
        "learn",
        robot.Learn,
        _in_collection,
        memories.decide_learn,
        idempotent=False,
        texts=memories.learn_texts,
    ),
    reads("recall", robot.Recall, _in_collection, access.decide_recall, answer_recall),
    adds(
        "save_perception",
        robot.SavePerception,
        _in_collection,
        memories.decide_save_perception,
        idempotent=False,
        texts=memories.perception_texts,
    ),
    destroys("forget", robot.Forget, _of_memory, memories.decide_forget, idempotent=False),
    destroys(
        "update",
        robot.Update,
        _of_memory,
        memories.decide_update,
        idempotent=True,
        texts=memories.update_texts,
    ),
    adds(
        "start_session",
        robot.StartSession,
        _in_collection,
        sessions.decide_start_session,
        idempotent=False,
    ),
    adds(
        "end_session",
        robot.EndSession,
        _of_session,
        sessions.decide_end_session,
        idempotent=False,
        heavy=True,
    ),
    adds(
        embed.NAME,
        embed.EmbedMissing,
        embed.place,
        embed.decide_embed,
        idempotent=False,
        internal=True,
        texts=embed.texts,
        heavy=True,
    ),
)


FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=TOOLS,
    spaces=Spaces(
        path="robot/{collection}",
        words="robot/ and the name of a collection, such as robot/default",
        title="Changes of a collection",
        description="The newest changes of a robot collection's memories.",
        find=_space_named,
    ),
    rules=RobotRules(),
    things=THINGS,
    prompts=PROMPTS,
    completes={COLLECTION.name: state.collections},
    late=(
        Sweep(
            tool=embed.NAME, page=_without_vector, count=state.count_without_vector, ask=embed.ask
        ),
    ),
)
