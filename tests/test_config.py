"""The configuration: what is refused, with which words, and what a valid one expands to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onehot import config
from onehot.errors import ConfigurationError
from onehot.variant import Variant

MINIMAL = {"implementation": ["fancy_index"], "minibatch": [16]}


def refused(**changes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        config.load({**MINIMAL, **changes})
    return str(caught.value)


def test_an_unknown_key_is_refused_with_the_nearest_valid_one():
    assert "minibach: unknown key; did you mean 'minibatch'?" in refused(minibach=[1])


def test_an_unknown_key_inside_a_section_is_refused_with_that_sections_keys():
    text = refused(sampling={"budget": 1})
    assert "sampling.budget: unknown key; did you mean 'budget_seconds'?" in text
    assert "vocabulary" not in text


def test_a_list_given_as_text_on_the_command_line_is_refused_with_the_right_spelling():
    assert "write KEY='[64,128]'" in refused(minibatch="64,128")


def test_an_unknown_implementation_is_refused_with_the_nearest_name():
    assert "'fancy_indx' is no implementation; did you mean 'fancy_index'?" in refused(
        implementation=["fancy_indx"]
    )


def test_an_unknown_backend_is_refused_with_the_known_ones():
    assert "known: numpy, cupy" in refused(backend=["numy/x"])


@pytest.mark.parametrize("value", [[], [0], [-1], [True], [1.5], [[16]], None, [16, 16], ["1e3"]])
def test_a_minibatch_that_is_no_list_of_positive_integers_is_refused_by_name(value):
    assert "minibatch" in refused(minibatch=value)


@pytest.mark.parametrize("label", ["a/b", "", "-x", "reference", "a b", "../up"])
def test_a_machine_label_that_makes_a_path_ambiguous_is_refused(label):
    assert "machine" in refused(machine=label)


def test_every_fault_is_reported_at_once():
    text = refused(minibach=[1], dtype=["float16"], invocations=0)
    assert all(key in text for key in ("minibach", "dtype.0", "invocations"))


def test_no_variant_at_all_is_refused():
    assert "no variant is left" in refused(geometry=["published"])


def test_numbers_written_as_text_are_read_as_numbers():
    """Snakemake's --config hands over the leaves of a nested value as text."""
    study = config.load({**MINIMAL, "sampling": {"budget_seconds": "0.2"}, "minibatch": ["64"]})
    assert (study.sampling.budget_seconds, study.minibatch) == (0.2, [64])


def test_factors_that_an_implementation_cannot_feel_are_not_swept():
    study = config.load(
        {
            "implementation": ["fancy_index", "published_loop", "dense_dot"],
            "backend": ["numpy", "cupy"],
            "minibatch": [16],
            "layout": ["C", "F"],
            "threads": [1, 0],
            "index_dtype": ["int32", "int64"],
        }
    )
    found: dict[tuple[str, str], int] = {}
    for variant in config.variants(study):
        key = variant.implementation, variant.backend
        found[key] = found.get(key, 0) + 1
    assert found == {
        ("fancy_index", "numpy"): 2,
        ("fancy_index", "cupy"): 2,
        ("published_loop", "numpy"): 2,
        ("published_loop", "cupy"): 2,
        ("dense_dot", "numpy"): 4,
        ("dense_dot", "cupy"): 2,
    }


def test_a_further_sweep_changes_what_it_names_and_adds_no_variant_twice():
    study = config.load({**MINIMAL, "backend": ["numpy"], "sweeps": {"more": {"minibatch": [16, 32]}}})
    assert [variant.minibatch for variant in config.variants(study)] == [16, 32]


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_execution_order_is_a_permutation_that_goes_invocation_by_invocation(seed, invocations):
    more = {"more": {"minibatch": [5, 6], "invocations": 2}}
    study = config.load(
        {**MINIMAL, "minibatch": [1, 2, 3], "seed": seed, "invocations": invocations, "sweeps": more}
    )
    order = config.execution_order(study)
    assert sorted(order.values()) == list(range(2 * 3 * invocations + 2 * 2 * 2))
    ranked = sorted(order, key=order.__getitem__)
    main = [number for variant, number in ranked if variant.minibatch < 4]
    further = [number for variant, number in ranked if variant.minibatch > 4]
    assert main == sorted(main) and further == sorted(further)
    assert {variant.minibatch for variant, _ in ranked[: len(main)]} == {1, 2, 3}
    assert order == config.execution_order(study)


def test_paths_of_different_variants_differ():
    study = config.load({**MINIMAL, "minibatch": [1, 11], "vocabulary": [11, 111], "embedding": [1, 11]})
    variants = config.variants(study)
    assert len({variant.path for variant in variants}) == len(variants)
    assert isinstance(variants[0], Variant)
