"""Cells as tasks of a Dask cluster: a local one, or one of many machines that share a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..digest import code_version
from ..errors import ClusterError, ResultFileError, one_line, require
from ..extras import require_extra
from ..progress import Reporter
from .cells import Cell, Failure, Outcome, by_compilation
from .local import PARTS, make
from .store import Folder, Memory, Store

if TYPE_CHECKING:
    from distributed import Client, Future


def check_client(client: Any) -> None:
    require_extra("dask", "client=")
    from distributed import Client

    require(isinstance(client, Client), "client", client, "a dask.distributed.Client")
    require(not client.asynchronous, "client", client, "a Client made without asynchronous=True")
    if client.status != "running":
        raise ClusterError(f"the Dask client is {client.status}; allowed: one that is connected to a scheduler")


def run_on_cluster(
    cells: Mapping[Any, Cell], store: Store, bar: Reporter, title: Callable[[Any], str], client: Client
) -> dict[Any, Outcome]:
    """What all cells ended with. Workers write to the folder of `store`; without one the numbers come back.

    Tasks of a lost worker are taken over by others. A cell that loses worker after worker is a failure. A folder that
    cannot be written, other code on a worker and a scheduler that is gone raise; finished cells stay.
    """
    from distributed import as_completed

    outcomes = {key: found for key, cell in cells.items() if (found := store.load(cell)) is not None}
    missing: dict[str, list[Any]] = {}  # by name: two cells may be the same
    for key, cell in cells.items():
        if key not in outcomes:
            missing.setdefault(cell.name, []).append(key)

    def show(message: str) -> None:
        whole = PARTS * len(cells)
        bar.update(min(PARTS * len(outcomes), whole - 1), whole, message)

    show("waiting for workers")
    address = client.scheduler_info()["address"]
    folder = store if isinstance(store, Folder) else None
    futures: dict[Future, str] = {}
    try:
        for place, name in enumerate(by_compilation({name: cells[keys[0]] for name, keys in missing.items()})):
            cell = cells[missing[name][0]]
            future = client.submit(_task, cell, folder, code_version(), pure=False, priority=-place)
            futures[future] = name
        for future in as_completed(list(futures), loop=client.loop):
            keys = missing[futures[future]]
            outcome = _outcome_of(future, cells[keys[0]], store, address)
            outcomes |= dict.fromkeys(keys, outcome)
            show(title(keys[0]))
    finally:
        _cancel(futures, client)
    return {key: outcomes[key] for key in cells}


def _task(cell: Cell, folder: Folder | None, code: str) -> Outcome | None:
    """On a worker. Where there is a folder, only failures come back."""
    if code_version() != code:
        raise ClusterError(
            "a worker has other sources of widefield, or another JAX, NumPy or SciPy; install the same everywhere"
        )
    if folder is None:
        return make(cell, Memory())
    if folder.load(cell) is not None:
        return None  # written by a worker that was lost before it could say so
    outcome = make(cell, folder)
    return outcome if isinstance(outcome, Failure) else None


def _outcome_of(future: Future, cell: Cell, store: Store, address: str) -> Outcome:
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise ClusterError(f"the Dask scheduler at {address} is gone, or was restarted")
    try:
        outcome = future.result()
    except KilledWorker as error:
        return Failure(f"KilledWorker: workers were lost while they ran it ({one_line(error)})", lasting=False)
    except (ClusterError, ResultFileError):
        raise
    except Exception as error:  # of the cluster: those of the run are its outcome
        raise ClusterError(f"a Dask worker cannot run cells ({type(error).__name__}: {one_line(error)})") from error
    if outcome is not None:
        store.save(cell, outcome)
        return outcome
    found = store.load(cell)
    if found is None:
        raise ClusterError("a worker wrote a cell that is not there; out must be a folder that all workers share")
    return found


def _cancel(futures: Iterable[Future], client: Client) -> None:
    """Nobody waits for them any more."""
    if client.status == "running":
        with suppress(Exception):  # a scheduler that vanishes now has nothing to cancel
            client.cancel([future for future in futures if not future.done()])
