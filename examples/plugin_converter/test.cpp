// Settings there and back, every tensor once, and what is refused.
#include <cstdio>
#include <exception>
#include <set>
#include <tessera/converter.hpp>
#include <tessera/error.hpp>
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
} catch (const ConfigError&) {
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  ConverterArguments arguments;
  const auto converter = world.make<Converter>("nanogpt", arguments);
  const Settings theirs = {{"n_layer", 3},
                           {"n_head", 2},
                           {"n_embd", 16},
                           {"block_size", 32},
                           {"vocab_size", 300},
                           {"dropout", 0.1}};
  bool wrong = false;
  Claims claims("config.json", theirs);
  Settings ours = converter->to_ours(claims);
  wrong |= failed(!throws([&] { claims.require_known("it"); }), "every setting is read");
  wrong |= failed(ours.at("model.layers") == Value(3), "settings have their names here");
  // The resolved configuration has a value for every key.
  ours["model.block.dropout"] = ours.at("model.dropout");
  ours["model.block.mlp.ffn"] = "auto";
  wrong |= failed(converter->to_theirs(ours) == theirs, "there and back is the same");

  std::set<std::string> here, there;
  for (const ConvertedTensor& tensor : converter->tensors(theirs)) {
    wrong |= failed(here.insert(tensor.ours).second, "a parameter is named once");
    wrong |= failed(there.insert(tensor.theirs).second, "a tensor is named once");
  }
  wrong |= failed(here.size() == 4 + 3 * 12, "all parameters are named");
  wrong |= failed(here.contains("layers.2.mlp.down.bias"), "those of the last block too");

  Settings without = theirs;
  without.erase("n_head");
  Claims few("config.json", without);
  wrong |= failed(throws([&] { converter->to_ours(few); }), "a missing setting is an error");
  Settings more = theirs;
  more["window"] = 8;
  Claims many("config.json", more);
  converter->to_ours(many);
  wrong |= failed(throws([&] { many.require_known("it"); }), "an unknown setting is left");
  ours["model.tied_embeddings"] = false;
  wrong |= failed(throws([&] { converter->to_theirs(ours); }), "what it cannot say is an error");
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
