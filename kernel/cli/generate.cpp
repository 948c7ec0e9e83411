#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/generator.hpp"
#include "kernel/train/run/growing_text.hpp"
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

// One object for programs.
void print_json(const GrowingText& text) {
  Json json;
  json.add("prompt", text.prompt()).add("text", text.text());
  json.add("tokens", Json::array(text.added(), [](i32 id) { return Json(i64{id}); }));
  json.add("end", name_of(text.end()));
  show_exact(json.text() + "\n");
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  if (options.prompt.empty()) fail_config("--prompt is empty: give the model a text to continue");
  check_sampling(options.sampling);
  for (const std::string& stop : options.stops) {
    if (stop.empty()) fail_config("--stop \"\": at least one character");
  }
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
  TextLimits limits{options.tokens, {}, options.stops};
  if (!options.ignore_eos) limits.ends = generator.ends();
  GrowingText text(generator.tokenizer(), std::move(tokens), std::move(limits));
  std::size_t printed = 0;
  const auto print = [&](std::string_view bytes) {
    show_exact(bytes);
    std::fflush(stdout);
  };
  if (!options.json) print(text.prompt());
  while (!text.over()) {
    text.add(generator.sampler().next(text.tokens(), options.sampling));
    if (options.json || text.text().size() <= printed) continue;
    print(text.text().substr(printed));
    printed = text.text().size();
  }
  if (options.json) {
    print_json(text);
  } else {
    show("\n");
  }
  return 0;
}

}  // namespace tessera
