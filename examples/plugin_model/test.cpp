// The list of layers, its vocabulary, and what is refused. `tessera config check` of two_tier.toml
// builds it and runs a step without data.
#include <cstdio>
#include <exception>
#include <tessera/error.hpp>
#include <tessera/model.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

bool failed(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not so: %s\n", what);
  return !holds;
}

template <class F>
bool throws(F&& f) try {
  f();
  return false;
} catch (const Error&) {
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  const auto make = [&](i64 upper, i64 sequence) {
    ModelArguments arguments{.tokenizer_vocab = 256, .sequence_length = sequence};
    return world.make<Model>(
        "two_tier",
        arguments,
        {{"layers", 3}, {"upper", upper}, {"hidden", 16}, {"heads", 2}, {"positions", 8}});
  };
  const auto model = make(1, 8);
  const std::vector<ModelLayer> layers = model->layers();
  bool wrong = failed(layers.size() == 5, "an embedding, three blocks and a head");
  wrong |= failed(layers.front().role == ModelLayer::embedding, "the embedding is first");
  wrong |= failed(layers.back().role == ModelLayer::head, "the head is last");
  wrong |= failed(layers[3].name == "layers.2", "blocks are numbered");
  wrong |= failed(model->vocabulary() == 256, "the vocabulary is the tokenizer's");
  wrong |= failed(throws([&] { make(4, 8); }), "more upper blocks than blocks are refused");
  wrong |= failed(throws([&] { make(1, 9); }), "a sample beyond the positions is refused");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
