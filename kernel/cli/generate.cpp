#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/generator.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

namespace {

// One sample on one rank, whatever the model was trained on.
const std::vector<std::string>& one_rank() {
  static const std::vector<std::string> kSets = {
      "parallel.tensor=1",
      "parallel.pipeline=1",
      "parallel.context=1",
      "parallel.data=1",
      "parallel.expert=1",
      "parallel.expert_tensor=\"auto\"",
      "comm.ranks=1",
      "batch.global=1",
      "batch.micro=1",
      "parallel.sequence_parallel=false",
      "graph.type=\"" + RunConfig().graph.type + "\"",
      "check.graphs_every=0",
      "placement.layout=\"\"",
      "placement.first=\"auto\"",
      "placement.last=\"auto\"",
      "placement.count_embedding=false",
      "placement.count_head=false",
      "schedule.type=\"" + RunConfig().schedule.type + "\""};
  return kSets;
}

// The part that is certain: the last bytes of a text may be half of a character.
std::size_t whole_characters(const std::string& text) {
  std::size_t start = text.size();
  for (int back = 0; back < 4 && start > 0; ++back) {
    const auto byte = static_cast<unsigned char>(text[--start]);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return start + length > text.size() ? start : text.size();
  }
  return text.size();
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  if (options.prompt.empty()) fail_config("--prompt is empty: give the model a text to continue");
  const std::filesystem::path folder = newest_checkpoint(options.checkpoint);
  std::vector<std::string> sets = one_rank();
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  const CheckpointIndex index = read_index(folder);
  const Config config = stored_config(folder, index, sets);
  const std::shared_ptr<PluginHost> plugins = open_plugins(options.path, config);
  const Resolved resolved = resolve_stored(folder, index, config, *plugins);
  const int threads = rank_threads(resolved.run.device, 1);
  require_threads(threads);
  Generator generator(resolved, *plugins, folder, threads);

  std::vector<i32> tokens = generator.tokenizer().encode(options.prompt, SpecialTexts::parsed);
  if (options.ids) {
    show_exact(Json::array(tokens, [](i32 id) { return Json(i64{id}); }).text() + "\n");
    return 0;
  }
  if (options.logits) {
    const std::vector<float> logits = generator.sampler().logits(tokens);
    show_exact(Json::array(logits, [](float x) { return Json(double{x}); }).text() + "\n");
    return 0;
  }
  std::size_t printed = 0;
  const auto print_new = [&](bool last) {
    const std::string text = generator.tokenizer().decode(tokens);
    const std::size_t end = last ? text.size() : whole_characters(text);
    if (end <= printed) return;
    show_exact(std::string_view(text).substr(printed, end - printed));
    std::fflush(stdout);
    printed = end;
  };
  print_new(options.tokens == 0);
  for (i64 i = 0; i < options.tokens; ++i) {
    tokens.push_back(generator.sampler().next(tokens, {options.temperature, options.seed}));
    print_new(i + 1 == options.tokens);
  }
  show("\n");
  return 0;
}

}  // namespace tessera
