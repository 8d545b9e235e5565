"""`mnemolog models`: which embedding models there are, and fetching them."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from mnemolog.infra.embedder import store
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL, Model


class Row(msgspec.Struct, frozen=True):
    """What is shown of a model."""

    name: str
    dims: int
    size_bytes: int
    scripts: tuple[str, ...]
    installed: bool
    default: bool


_models_dir_option = click.option(
    "--models-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=store.ENV_MODELS_DIR,
    show_envvar=True,
    help="Where models are kept.  [default: the user's cache folder]",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
# Every command takes --data, so that a script can add it to all; models are shared by all data.
_data_option = click.option("--data", hidden=True, expose_value=False)


@click.group()
@_data_option
def models() -> None:
    """Embedding models: list them, or fetch one.

    \b
    Examples:
      mnemolog models list
      mnemolog models pull bge-small-en-v1.5
    """


@models.command("list")
@_models_dir_option
@_json_option
@_data_option
def list_models(models_dir: Path | None, as_json: bool) -> None:
    """Show the known models and which of them are installed.

    \b
    Examples:
      mnemolog models list
      mnemolog models list --json
    """
    directory = store.models_dir(models_dir)
    rows = [_row(model, directory) for model in CATALOGUE.values()]
    if as_json:
        click.echo(msgspec.json.encode({"directory": str(directory), "models": rows}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "dims", "size", "scripts", "installed", "default", box=None)
    for row in rows:
        table.add_row(
            row.name,
            str(row.dims),
            f"{row.size_bytes / 1e6:.0f} MB",
            ", ".join(row.scripts),
            "yes" if row.installed else "no",
            "yes" if row.default else "",
        )
    console = Console()
    console.print(table)
    console.print(f"in {directory}", soft_wrap=True, highlight=False)


@models.command("pull")
@click.argument("name", default=DEFAULT_MODEL, type=click.Choice(list(CATALOGUE)), metavar="[NAME]")
@_models_dir_option
@_json_option
@_data_option
def pull_model(name: str, models_dir: Path | None, as_json: bool) -> None:
    """Fetch a model and check its sha256; without NAME, the default one.

    Harmless when it is there already: it is checked, and repaired if it is damaged.

    \b
    Examples:
      mnemolog models pull
      mnemolog models pull e5-small-v2 --models-dir /srv/models
    """
    directory, model = store.models_dir(models_dir), CATALOGUE[name]
    try:
        fetched = _pull_with_progress(model, directory)
    except store.PullError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        shown = {"name": name, "directory": str(directory / name), "fetched": fetched}
        click.echo(msgspec.json.encode(shown))
    elif fetched:
        click.echo(f"{name} is installed in {directory / name}")
    else:
        click.echo(f"{name} was already in {directory / name}; its files are as they should be")


def _pull_with_progress(model: Model, directory: Path) -> bool:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    # On standard error, so that it does not mix with what is printed; nothing off a terminal.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task(model.name, total=model.size_bytes)
        return store.pull(
            model,
            directory,
            lambda what, done, total: shown.update(
                task, description=f"{model.name}: {what}", completed=done, total=total
            ),
        )


def _row(model: Model, directory: Path) -> Row:
    return Row(
        name=model.name,
        dims=model.dims,
        size_bytes=model.size_bytes,
        scripts=model.scripts,
        installed=store.installed(model, directory),
        default=model.name == DEFAULT_MODEL,
    )
