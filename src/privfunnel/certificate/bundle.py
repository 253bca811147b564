"""Certificate files: one compressed ``.npz`` for one or many, read without unpickling anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from privfunnel.certificate.archive import Archive, certificate_file
from privfunnel.certificate.certificate import AnyProof, Certificate
from privfunnel.certificate.chain import ChainProof, Step
from privfunnel.certificate.cliques import CliqueProof
from privfunnel.certificate.curvature import Curved
from privfunnel.certificate.distortion import DistortionCertificate
from privfunnel.certificate.guarded import GuardedCertificate
from privfunnel.certificate.pairs import PairsProof
from privfunnel.certificate.supports import SupportsProof
from privfunnel.certificate.task import Partition, TaskCertificate
from privfunnel.certificate.thinning import ThinProof
from privfunnel.certificate.tree import Proof
from privfunnel.errors import CertificateError
from privfunnel.storage import PRIVATE, write_whole
from privfunnel.threats import Threat

SCHEMA = "privfunnel/certificate"
#: Version 2 has certificates over cells of public symbols, version 3 proofs by pairs, version 4 chains of them and
#: guarded certificates, version 5 those of distortion, version 6 those of task funnels, version 7 guarded ones of
#: these, version 8 proofs by supports, version 9 guarded ones over classes of public symbols, version 10 proofs by
#: thinning, version 11 those by cliques, version 12 trees with curvature, version 13 guarded proofs by pairs, version
#: 14 trees with posteriors in place of multipliers; a file is written as the oldest version that can hold it.
CELLS_VERSION, PAIRS_VERSION, CHAINS_VERSION, DISTORTION_VERSION, TASK_VERSION = 2, 3, 4, 5, 6
GUARDED_TASK_VERSION, SUPPORTS_VERSION, GUARDED_CELLS_VERSION = 7, 8, 9
THINNING_VERSION, CLIQUES_VERSION, CURVED_VERSION, GUARDED_PAIRS_VERSION = 10, 11, 12, 13
TOUCHING_VERSION = 14
SCHEMA_VERSION = TOUCHING_VERSION

AnyCertificate = Certificate | GuardedCertificate | DistortionCertificate | TaskCertificate

_TREE_ARRAYS = ("q", "nu", "variable", "split", "first")
_PAIR_ARRAYS = ("outer", "inner")
_STEP_ARRAYS = ("sides", "prices", "cells")


def save_bundle(path: str | os.PathLike[str], certificates: Iterable[AnyCertificate]) -> None:
    """Write certificates, e.g. those of a curve, as one compressed ``.npz`` file, whole or not at all.

    A proof speaks of one table in exact numbers: the file is for the user alone.
    """
    data: dict[str, Any] = {"schema": np.array(SCHEMA)}
    count, version = 0, 1
    for c, certificate in enumerate(certificates):
        count += 1
        if isinstance(certificate, GuardedCertificate):
            data.update(_guarded(certificate, c))
            version = max(version, _guarded_version(certificate))
            continue
        if isinstance(certificate, DistortionCertificate):
            data.update(_distortion(certificate, c))
            version = max(version, DISTORTION_VERSION)
            continue
        if isinstance(certificate, TaskCertificate):
            data.update(_task(certificate, c))
            version = max(version, TASK_VERSION)
            continue
        data[f"{c}.fingerprint"] = np.array(certificate.fingerprint)
        data[f"{c}.prices"] = certificate.prices
        data[f"{c}.numbers"] = np.array([certificate.slope, certificate.value, certificate.intercept])
        data[f"{c}.claims"] = np.array([proof.claim for proof in certificate.proofs])
        if certificate.coarsening is not None:
            data[f"{c}.coarsening"] = certificate.coarsening
        if certificate.cells is not None:
            data[f"{c}.cells"], version = certificate.cells, max(version, CELLS_VERSION)
        for t, proof in enumerate(certificate.proofs):
            version = max(version, _version(proof))
            data.update(_packed(f"{c}.{t}", proof))
    data["count"], data["version"] = np.array(count), np.array(version)
    write_whole(path, lambda stream: np.savez_compressed(stream, **data), mode=PRIVATE)


def load_bundle(path: str | os.PathLike[str]) -> tuple[AnyCertificate, ...]:
    """Read what :func:`save_bundle` wrote, from a file that anybody may have made: see :mod:`.archive`.

    Raises:
        CertificateError: The file cannot be read as certificates of this version.
    """
    none = "; a disclosure without leakage has no certificate and needs none: leakage is never negative"
    with certificate_file(path, "solve --out or curve --out", none) as data:
        if str(data["schema"]) != SCHEMA:
            raise CertificateError(f"{str(path)!r} is not a certificate file: give one written by save")
        version, count = int(data["version"]), int(data["count"])
        if not 1 <= version <= SCHEMA_VERSION:
            raise CertificateError(
                f"{str(path)!r} has certificate version {version}, this release reads up to "
                f"{SCHEMA_VERSION}: update privfunnel or write the file again"
            )
        return tuple(_read_any(data, c) for c in range(count))


def _read_any(data: Archive, c: int) -> AnyCertificate:
    if f"{c}.threat" in data:
        return _read_guarded(data, c)
    if f"{c}.task" in data:
        return _read_task(data, c)
    return _read_distortion(data, c) if f"{c}.costs" in data else _read(data, c)


def _distortion(certificate: DistortionCertificate, c: int) -> dict[str, Any]:
    """The arrays of a certificate of the distortion funnel."""
    made: dict[str, Any] = {
        f"{c}.fingerprint": np.array(certificate.fingerprint),
        f"{c}.costs": certificate.costs,
        f"{c}.cuts": certificate.cuts,
        f"{c}.numbers": np.array([certificate.slope, certificate.intercept]),
    }
    return made if certificate.outputs is None else made | {f"{c}.outputs": certificate.outputs}


def _read_distortion(data: Archive, c: int) -> DistortionCertificate:
    head = data.head(c, "slope", "intercept")
    invariant = f"{c}.outputs" in data
    return DistortionCertificate(
        **head,
        costs=data.floats(f"{c}.costs"),
        cuts=data.floats(f"{c}.cuts"),
        outputs=data.floats(f"{c}.outputs") if invariant else None,
    )


def _guarded(certificate: GuardedCertificate, c: int) -> dict[str, Any]:
    """The arrays of a guarded certificate, which says in words what it is about."""
    made: dict[str, Any] = {
        f"{c}.fingerprint": np.array(certificate.fingerprint),
        f"{c}.threat": np.array(json.dumps(certificate.threat.to_dict())),
        f"{c}.zero": np.array(int(certificate.zero)),
        f"{c}.weights": certificate.weights,
        f"{c}.prices": certificate.prices,
        f"{c}.numbers": np.array([certificate.slope, certificate.intercept]),
        f"{c}.claims": np.array([proof.claim for proof in certificate.proofs]),
    }
    if certificate.task_fingerprint is not None:
        made |= {
            f"{c}.task": np.array(certificate.task_fingerprint),
            f"{c}.task_slope": np.array(certificate.task_slope),
        }
    if certificate.cells is not None:
        made[f"{c}.cells"] = certificate.cells
    for t, proof in enumerate(certificate.proofs):
        made.update(_packed(f"{c}.{t}", proof))
        if isinstance(proof, Proof) and proof.curved is not None:
            made.update({f"{c}.{t}.curved.{name}": each for name, each in proof.curved._asdict().items()})
        if isinstance(proof, Proof) and proof.touching is not None:
            made[f"{c}.{t}.touching"] = proof.touching
    return made


def _read_guarded(data: Archive, c: int) -> GuardedCertificate:
    head = data.head(c, "slope", "intercept")
    claims, tasked = data[f"{c}.claims"], f"{c}.task" in data
    return GuardedCertificate(
        **head,
        threat=Threat.from_dict(json.loads(str(data[f"{c}.threat"]))),
        zero=bool(data[f"{c}.zero"]),
        weights=data.floats(f"{c}.weights"),
        prices=data.floats(f"{c}.prices"),
        proofs=tuple(
            (_read_pairs if f"{c}.{t}.outer" in data else _read_tree)(data, f"{c}.{t}", float(claim))
            for t, claim in enumerate(claims)
        ),
        task_fingerprint=str(data[f"{c}.task"]) if tasked else None,
        task_slope=float(data[f"{c}.task_slope"]) if tasked else 0.0,
        cells=data.integers(f"{c}.cells") if f"{c}.cells" in data else None,
    )


def _task(certificate: TaskCertificate, c: int) -> dict[str, Any]:
    """The arrays of the certificate of a task funnel."""
    tree = certificate.partition
    return {
        f"{c}.fingerprint": np.array(certificate.fingerprint),
        f"{c}.task": np.array(certificate.task_fingerprint),
        f"{c}.zero": np.array(int(certificate.zero)),
        f"{c}.numbers": np.array([certificate.slope, certificate.intercept]),
        f"{c}.variable": tree.variable,
        f"{c}.split": tree.split,
        f"{c}.first": tree.first,
        f"{c}.q": certificate.q,
        **({} if certificate.tilts is None else {f"{c}.tilts": certificate.tilts}),
    }


def _read_task(data: Archive, c: int) -> TaskCertificate:
    head = data.head(c, "slope", "intercept")
    return TaskCertificate(
        **head,
        task_fingerprint=str(data[f"{c}.task"]),
        zero=bool(data[f"{c}.zero"]),
        partition=Partition(
            data.integers(f"{c}.variable"),
            data.floats(f"{c}.split"),
            data.integers(f"{c}.first"),
        ),
        q=data.floats(f"{c}.q"),
        tilts=data.floats(f"{c}.tilts") if f"{c}.tilts" in data else None,
    )


def _read_tree(data: Archive, place: str, claim: float) -> Proof:
    q, nu, split = (data.floats(f"{place}.{name}") for name in ("q", "nu", "split"))
    variable, first = (data.integers(f"{place}.{name}") for name in ("variable", "first"))
    curved = None
    if f"{place}.curved.nodes" in data:
        nodes, *floats = (f"{place}.curved.{name}" for name in Curved._fields)
        curved = Curved(data.integers(nodes), *(data.floats(each) for each in floats))
    touching = data.floats(f"{place}.touching") if f"{place}.touching" in data else None
    return Proof(claim=claim, q=q, nu=nu, variable=variable, split=split, first=first, curved=curved,
                 touching=touching)  # fmt: skip


def _guarded_version(certificate: GuardedCertificate) -> int:
    """The first version of the file that has such guarded certificates."""
    if any(isinstance(proof, Proof) and proof.touching is not None for proof in certificate.proofs):
        return TOUCHING_VERSION
    if any(isinstance(proof, PairsProof) for proof in certificate.proofs):
        return GUARDED_PAIRS_VERSION
    if any(isinstance(proof, Proof) and proof.curved is not None for proof in certificate.proofs):
        return CURVED_VERSION
    if certificate.cells is not None:
        return GUARDED_CELLS_VERSION
    return CHAINS_VERSION if certificate.task_fingerprint is None else GUARDED_TASK_VERSION


def _version(proof: AnyProof) -> int:
    """The first version of the file that has such proofs."""
    if isinstance(proof, ThinProof):
        return THINNING_VERSION
    if isinstance(proof, CliqueProof):
        return CLIQUES_VERSION
    if isinstance(proof, SupportsProof):
        return SUPPORTS_VERSION
    if isinstance(proof, ChainProof):
        return CHAINS_VERSION
    return PAIRS_VERSION if isinstance(proof, PairsProof) else 1


def _packed(place: str, proof: AnyProof) -> dict[str, Any]:
    """The arrays of a proof, named by where it is; one by supports has none, and says so."""
    if isinstance(proof, SupportsProof):
        return {f"{place}.supports": np.array(1)}
    if isinstance(proof, ThinProof):
        return {f"{place}.measure": proof.measure}
    if isinstance(proof, CliqueProof):
        return {f"{place}.cliques": proof.cliques, **_packed(place, proof.tree)}
    if not isinstance(proof, ChainProof):
        names = _PAIR_ARRAYS if isinstance(proof, PairsProof) else _TREE_ARRAYS
        return {f"{place}.{name}": getattr(proof, name) for name in names}
    numbers = [(step.slope, step.rest, step.proof.claim) for step in proof.steps]
    packed: dict[str, Any] = {
        f"{place}.steps": np.array(numbers).reshape(-1, 3),
        f"{place}.shares": proof.shares,
    }
    for number, step in enumerate(proof.steps):
        packed |= {f"{place}.{number}.{name}": getattr(step, name) for name in _STEP_ARRAYS}
        packed |= _packed(f"{place}.{number}", step.proof)
    return packed


def _read_pairs(data: Archive, place: str, claim: float) -> PairsProof:
    outer, inner = (data.integers(f"{place}.{name}") for name in _PAIR_ARRAYS)
    return PairsProof(claim=float(claim), outer=outer, inner=inner)


def _read_chain(data: Archive, place: str, claim: float) -> ChainProof:
    steps = []
    for number, (slope, rest, own) in enumerate(data[f"{place}.steps"]):
        at = f"{place}.{number}"
        steps.append(
            Step(
                sides=data.integers(f"{at}.sides"),
                slope=float(slope),
                rest=float(rest),
                prices=data.floats(f"{at}.prices"),
                cells=data.integers(f"{at}.cells"),
                proof=_read_pairs(data, at, own),
            )
        )
    shares = data.floats(f"{place}.shares")
    return ChainProof(claim=float(claim), shares=shares, steps=tuple(steps))


def _read(data: Archive, c: int) -> Certificate:
    head = data.head(c, "slope", "value", "intercept")
    proofs: list[AnyProof] = []
    for t, claim in enumerate(data[f"{c}.claims"]):
        if f"{c}.{t}.steps" in data:
            proofs.append(_read_chain(data, f"{c}.{t}", claim))
            continue
        if f"{c}.{t}.outer" in data:
            proofs.append(_read_pairs(data, f"{c}.{t}", claim))
            continue
        if f"{c}.{t}.supports" in data:
            proofs.append(SupportsProof(claim=float(claim)))
            continue
        if f"{c}.{t}.measure" in data:
            measure = data.floats(f"{c}.{t}.measure")
            proofs.append(ThinProof(claim=float(claim), measure=measure))
            continue
        tree = _read_tree(data, f"{c}.{t}", float(claim))
        named = f"{c}.{t}.cliques"
        proofs.append(CliqueProof(tree=tree, cliques=data.integers(named)) if named in data else tree)
    groups, cells = (
        data.integers(f"{c}.{name}") if f"{c}.{name}" in data else None for name in ("coarsening", "cells")
    )
    return Certificate(
        **head,
        prices=data.floats(f"{c}.prices"),
        proofs=tuple(proofs),
        coarsening=groups,
        cells=cells,
    )
