"""Trees to and from linkage matrices, Newick text and files."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from trees import INVERTED, chain, leaf_sets, random_tree, tree_of

from bregjax.hierarchy import Dendrogram

# Linkage matrices

GOOD_ROWS = [[0, 1, 1.0, 2], [2, 3, 2.0, 2], [4, 5, 3.0, 4]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 1, np.nan, 2], r"`z` must be finite; got nan at row 0, column 2"),
        ([0, np.inf, 1, 2], r"`z` must be finite; got inf at row 0, column 1"),
        ([0, 1.5, 1, 2], r"whole numbers.*got 1.5 at row 0, column 1"),
        ([0, 1, -1, 2], r"must not be negative; got -1.0 at row 0"),
        ([-1, 1, 1, 2], r"must not be negative; got -1.0 at row 0"),
        ([0, 4, 1, 2], r"row 0 merges node 4, which is not made by an earlier"),
        ([0, 0, 1, 2], r"row 0 merges node 0, which an earlier row, or this one"),
        ([0, 2, 1, 2], r"row 1 merges node 2, which an earlier row"),
        ([0, 1, 1, 3], r"count the leaves.*got 3 in row 0, which has 2"),
    ],
)
def test_from_linkage_refuses(row, message):
    assert Dendrogram.from_linkage(GOOD_ROWS).num_leaves == 4
    with pytest.raises(ValueError, match=message):
        Dendrogram.from_linkage([row, *GOOD_ROWS[1:]])


def test_from_linkage_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shape \[m − 1, 4\].*got \[3, 2\]"):
        Dendrogram.from_linkage(np.array(GOOD_ROWS)[:, :2])


# Newick


def parse_newick(text):
    """Nested lists [name or children, length], by a stack."""
    words = re.findall(r"'(?:[^']|'')*'|[(),:;]|[^(),:;']+", text)
    assert "".join(words) == text
    assert words[-1] == ";"
    stack: list[list] = [[]]
    rest = iter(words[:-1])
    for word in rest:
        if word == "(":
            stack.append([])
        elif word == ")":
            inner = stack.pop()
            stack[-1].append([inner, None])
        elif word == ":":
            stack[-1][-1][1] = float(next(rest))
        elif word != ",":
            name = word[1:-1].replace("''", "'") if word[0] == "'" else word
            stack[-1].append([name, None])
    assert len(stack) == 1
    return stack[0][0]


def clusters_with_heights(parsed):
    """The names under every inner node and its height, bottom up, by a stack."""
    found, stack = {}, [(parsed, False)]
    done = {}
    while stack:
        node, ready = stack.pop()
        content, _ = node
        if isinstance(content, str):
            done[id(node)] = (frozenset([content]), 0.0)
        elif not ready:
            stack.append((node, True))
            stack.extend((child, False) for child in content)
        else:
            below = [done[id(child)] for child in content]
            names = below[0][0] | below[1][0]
            height = below[0][1] + content[0][1]
            np.testing.assert_allclose(height, below[1][1] + content[1][1], atol=1e-9)
            done[id(node)] = (names, height)
            found[names] = height
    return found


@pytest.mark.parametrize("heights", ["cost", "monotone", "merge_index"])
def test_newick_parses_back(rng, heights):
    tree = random_tree(rng, 24)
    names = [f"leaf {i}" if i % 2 else f"x{i}" for i in range(24)]
    found = clusters_with_heights(parse_newick(tree.to_newick(names, heights=heights)))
    expected = {
        frozenset(names[leaf] for leaf in leaves): height
        for leaves, height in zip(
            leaf_sets(tree)[24:], tree.heights(heights), strict=True
        )
    }
    assert found.keys() == expected.keys()
    for key, height in expected.items():
        np.testing.assert_allclose(found[key], height, atol=1e-9)


def test_newick_branches_where_costs_invert():
    tree = tree_of([[0, 2], [1, 3]], [7.5, 7.0])
    assert tree.to_newick() == "(1:7.5,(0:7.5,2:7.5):0.0);"
    assert tree.to_newick(heights="cost") == "(1:7.0,(0:7.5,2:7.5):-0.5);"


def test_newick_quotes_names():
    names = ["it's", "a_b", "(x)", "", "né, [1]:;"]
    tree = random_tree(np.random.default_rng(0), 5)
    text = tree.to_newick(names, heights="merge_index")
    for quoted in ("'it''s':", "'a_b':", "'(x)':", "'':", "'né, [1]:;':"):
        assert quoted in text
    assert set().union(*clusters_with_heights(parse_newick(text))) == set(names)
    assert "a.b-1+c:" in tree.to_newick(np.array(["a.b-1+c", 1, 2, 3, 4]))


def test_newick_refuses_the_wrong_number_of_names():
    with pytest.raises(ValueError, match="`names` must name each of the 3 leaves.* 2"):
        INVERTED.to_newick(["a", "b"])


def test_newick_names_are_unique_and_of_one_line():
    tree = random_tree(np.random.default_rng(0), 6)
    names = ["a", "a", "b\nc", "a.1", "a", "b\r\nc"]
    text = tree.to_newick(names)
    assert "\n" not in text
    found = set().union(*clusters_with_heights(parse_newick(text)))
    assert found == {"a", "a.2", "b c", "a.1", "a.3", "b c.1"}


def test_newick_of_a_deep_tree_parses_back():
    found = clusters_with_heights(parse_newick(chain(3000).to_newick()))
    assert sorted(map(len, found)) == list(range(2, 3001))


# Files


@pytest.mark.parametrize("scale", [None, 0.1])
def test_save_and_load_bit_for_bit(rng, tmp_path, dtype, scale):
    tree = random_tree(rng, 20)
    tree = Dendrogram(
        jnp.asarray(tree.children),
        jnp.asarray(rng.random(19), dtype=dtype),
        rng.random(20).astype(dtype),
        ward_scale=scale,
    )
    path = tmp_path / "a tree"
    tree.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["a tree"]
    loaded = Dendrogram.load(str(path))
    for name in ("children", "merge_costs", "weights"):
        written, read = getattr(tree, name), getattr(loaded, name)
        assert isinstance(read, np.ndarray)
        assert read.dtype == written.dtype
        np.testing.assert_array_equal(read, written)
    assert (loaded.ward_scale, loaded.unit) == (scale, "nats")


def test_load_refuses_other_files(tmp_path):
    path = tmp_path / "tree.npz"
    with pytest.raises(FileNotFoundError):
        Dendrogram.load(path)

    def refuses(message):
        with pytest.raises(ValueError, match=message):
            Dendrogram.load(path)

    path.write_bytes(b"some text")
    refuses("file that `Dendrogram.save` wrote.*no zip archive")
    INVERTED.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    refuses("no zip archive, or cut short")
    place = whole.index(INVERTED.merge_costs.tobytes())
    path.write_bytes(whole[:place] + b"\x00" + whole[place + 1 :])
    refuses("or is damaged")
    np.savez(path, x=np.zeros(3))
    refuses(r"`Dendrogram.save` wrote.*it holds \['x'\]")
    np.savez(path, x=np.array([{}], dtype=object))
    refuses("or is damaged")  # pickled objects are never read


def test_load_refuses_other_contents(tmp_path):
    path = tmp_path / "tree.npz"
    INVERTED.save(path)
    with np.load(path) as archive:
        saved = {name: archive[name] for name in archive.files}
    fields = {"children", "merge_costs", "weights"}
    assert fields | {"bregjax_dendrogram_version"} == saved.keys()
    for changes, message in (
        ({"bregjax_dendrogram_version": 4}, "version 3 at most.*is of version 4"),
        ({"unit": "miles"}, "`unit` must be one of.*got 'miles'"),
        ({"extra": 1}, r"must hold .*holds \['children', 'extra'"),
        ({"weights": np.ones(2)}, "do not fit together"),
        ({"merge_costs": np.ones(3)}, "do not fit together"),
        ({"children": saved["children"][:, :1]}, "do not fit together"),
        ({"children": np.array([[0, 2], [2, 3]], np.int32)}, "do not fit together"),
        ({"children": saved["children"].astype(float)}, "do not fit together"),
    ):
        contents: dict[str, Any] = saved | changes
        np.savez(path, **contents)
        with pytest.raises(ValueError, match=message):
            Dendrogram.load(path)
