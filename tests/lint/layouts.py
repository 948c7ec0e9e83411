"""A layer names no mesh: what it is under tensor and sequence parallelism it gets from
TensorRegion, ParameterSpec::split and BuildContext::divide. The same holds for routers, models and
the examples that authors copy. Who exchanges rows or sums along another axis is listed here."""

import re

import tree

FOLDERS = (
    "plugins/layers/", "plugins/routers/", "plugins/models/", "examples/plugin_layer/",
    "examples/plugin_model/", "examples/plugin_module/", "examples/plugin_operation/",
    "examples/plugin_router/",
)
EXCEPTIONS = {
    "plugins/layers/attention/meeting.cpp": "context ranks exchange keys",
    "plugins/layers/bert_heads/head_rows.cpp": "logits of a sample are of several ranks' rows",
    "plugins/layers/moe/capacity.cpp": "experts fill up with the rows of a whole sequence",
    "plugins/layers/moe/auxiliary.cpp": "loads are summed over sequences, stages and replicas",
    "plugins/routers/expert_choice/expert_choice.cpp": "experts choose among a whole sequence",
    "plugins/routers/top_k/balancing_bias.hpp": "loads are summed over a stage",
}
MESH = re.compile(r"\bmesh\(\)|\bMesh\b|\btessera/mesh\.hpp\b|\.mesh\b|->mesh\b")


def layouts(root, files):
    found = []
    for path in files:
        name = path.as_posix()
        if path.suffix not in tree.CPP or not name.startswith(FOLDERS):
            continue
        named = [n for n, line in tree.lines(root, path) if MESH.search(line.split("//")[0])]
        if name not in EXCEPTIONS:
            found += [f"{path}:{n}: a layer that names a mesh" for n in named]
        elif not named:
            found.append(f"{path}:1: names no mesh any more: it is no exception")
    return found


EXAMPLES = [
    ("plugins/layers/mlp/a.cpp", "const i64 t = build.mesh().size(Axis::tensor);\n",
     "a.cpp:1: a layer that names a mesh"),
    ("plugins/routers/a.hpp", "void f(const Mesh& mesh);\n", "a.hpp:1: a layer that names a mesh"),
    ("examples/plugin_layer/a.cpp", "cx.mesh->world();\n", "a.cpp:1: a layer that names a mesh"),
    ("plugins/layers/a.cpp", "build.divide(f, \"ffn\", \"inner features\");  // no mesh()\n", None),
    ("plugins/optimizers/a.cpp", "arguments.mesh->world();\n", None),
    ("plugins/layers/attention/meeting.cpp", "build.mesh().size(Axis::context);\n", None),
    ("plugins/layers/attention/meeting.cpp", "int i;\n", "names no mesh any more"),
]

if __name__ == "__main__":
    tree.main(layouts, EXAMPLES)
