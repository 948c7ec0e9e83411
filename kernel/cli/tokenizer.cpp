#include <chrono>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/data/tokenizer_training.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

int run_tokenizer_train(const TokenizerTrainOptions& options) {
  const Config config = Config::load({options.file}, options.sets);
  const auto plugins = open_plugins({options.path.begin(), options.path.end()});
  const TokenizerTraining training(config, *plugins);
  const auto begin = std::chrono::steady_clock::now();
  const TrainedVocabulary made =
      training.run(options.force, [](const std::string& line) { show("{}\n", line); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  show("{}: {} tokens, {:.2f} bytes of text a token, in {:.1f} s\n",
       training.output(),
       made.tokens,
       made.bytes_a_token,
       seconds.count());
  show("tokenizer = {{type = {}, path = {}}}\n",
       quote(made.tokenizer),
       quote(training.output(), training.output().size()));
  return 0;
}

}  // namespace tessera
