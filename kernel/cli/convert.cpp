#include <fmt/format.h>

#include <filesystem>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/train/run/convert.hpp"
#include "tessera/base/value.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

void print_tokenizer(const Conversion& done, const char* without, bool unwanted) {
  const std::string type = Value(done.tokenizer).text();
  if (done.with_tokenizer) {
    show("its text is read by the tokenizer {}\n", type);
  } else {
    show("{}: its text is read by the tokenizer {}{}\n",
         unwanted ? "--no-tokenizer" : without,
         type,
         done.tokenizer == "byte" ? ", a token a byte" : "");
  }
}

}  // namespace

int run_convert(const ConvertOptions& options) {
  namespace fs = std::filesystem;
  const fs::path from = options.from, to = options.to;
  ConversionArguments arguments{.from = from,
                                .out = to,
                                .converter = options.converter,
                                .dtype = options.dtype,
                                .with_tokenizer = !options.no_tokenizer};
  const auto plugins = open_plugins({options.path.begin(), options.path.end()});
  if (ForeignModel::in(from)) {
    if (!options.dtype.empty()) {
      fail_config(
          "--dtype is for a checkpoint that becomes a model; {} is a model already, and its values "
          "keep their bits",
          from.string());
    }
    if (options.max_shard_size) {
      fail_config(
          "--max-shard-size is for a checkpoint that becomes a model; {} is a model already",
          from.string());
    }
    const Conversion done = import_model(arguments, *plugins);
    show("{}: {} parameters of {} (converter {})\n",
         to.string(),
         done.tensors,
         from.string(),
         done.converter);
    print_tokenizer(done, "the folder has no tokenizer", options.no_tokenizer);
    show(
        "train on: a configuration with include = [\"{}\"], data and learning rate, and\n"
        "  --set checkpoint.init_from={}\n",
        done.configuration.string(),
        to.string());
    return 0;
  }
  const fs::path checkpoint = newest_checkpoint(from);
  arguments.from = checkpoint;
  const i64 file_bytes =
      options.max_shard_size ? static_cast<i64>(*options.max_shard_size) : kForeignFileBytes;
  const Conversion done = export_model(arguments, file_bytes, *plugins);
  show("{}: {} tensors of {} (converter {})\n",
       to.string(),
       done.tensors,
       checkpoint.string(),
       done.converter);
  if (!done.dtype.empty()) show("its parameters are {}\n", done.dtype);
  print_tokenizer(done, "no tokenizer is written", options.no_tokenizer);
  return 0;
}

}  // namespace tessera
