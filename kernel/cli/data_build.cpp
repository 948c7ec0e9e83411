#include <fmt/format.h>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/data/build.hpp"
#include "kernel/data/overlap.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

int run_data_build(const DataBuildOptions& options) {
  const Config config = Config::load({options.file}, options.sets, TableArrays::numbered);
  const auto plugins = open_plugins({options.path.begin(), options.path.end()});
  const BuildConfig build = BuildConfig::load(config, *plugins);
  const BuildSummary made = build_corpus(build, options.force);
  if (!made.stages.empty()) {
    show("{:<18} {:>12} {:>12} {:>12} {:>16} {:>16}\n",
         "stage",
         "documents",
         "changed",
         "removed",
         "characters out",
         "tokens out");
  }
  for (const BuildSummary::Stage& stage : made.stages) {
    show("{:<18} {:>12} {:>12} {:>12} {:>16} {:>16}\n",
         stage.type,
         stage.counts.in.documents,
         stage.counts.changed,
         stage.counts.removed,
         stage.counts.out.characters,
         stage.counts.out.tokens);
  }
  show("{}{}: {} documents, {} tokens\n",
       made.prefixes.front(),
       made.prefixes.size() > 1 ? fmt::format(" to {}", made.prefixes.back()) : "",
       made.documents,
       made.tokens);
  return 0;
}

int run_data_overlap(const DataOverlapOptions& options) {
  const OverlapShare share =
      overlap_share(options.test, options.train, options.words, {.text_field = options.text_field});
  const auto percent = [](i64 part, i64 whole) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  if (options.json) {
    show_exact(Json()
                   .add("words", options.words)
                   .add("runs", share.runs)
                   .add("found", share.found)
                   .add("distinct", share.distinct)
                   .add("distinct_found", share.distinct_found)
                   .text() +
               "\n");
    return 0;
  }
  show("{:.2f} % of the test's runs of {} words stand in the training's texts: {} of {}\n",
       percent(share.found, share.runs),
       options.words,
       share.found,
       share.runs);
  show("{:.2f} % of those that differ: {} of {}\n",
       percent(share.distinct_found, share.distinct),
       share.distinct_found,
       share.distinct);
  return 0;
}

}  // namespace tessera
