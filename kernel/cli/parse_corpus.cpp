#include "kernel/cli/parse_corpus.hpp"

#include "kernel/cli/footers.hpp"

namespace tessera {

namespace {

// What a file of its own says: what to make of which documents.
template <class Options>
void add_making(Program& program,
                CLI::App* command,
                int (*run)(const Options&),
                const char* footer) {
  const auto o = program.choose_work(command, run);
  add_path(command, "FILE", o->file, "what to make of what")->required();
  add_sets(command, o->sets);
  add_plugin_folders(command, o->path);
  command->add_flag("--force", o->force, "replace files that are there");
  command->footer(footer);
}

void add_overlap(Program& program, CLI::App* data, int (*run)(const DataOverlapOptions&)) {
  CLI::App* command =
      data->add_subcommand("overlap", "How much of texts for a test stands in texts for training");
  const auto o = program.choose_work(command, run);
  add_path(command, "--test", o->test, "files of documents, as a build's input")
      ->required()
      ->option_text("FILE ... REQUIRED");
  add_path(command, "--train", o->train, "the same for the training")
      ->required()
      ->option_text("FILE ... REQUIRED");
  command->add_option("--words", o->words, "words in a row that count as one run")
      ->check(CLI::Range(i64{1}, i64{1000}))
      ->option_text("N [8]");
  command->add_option("--text-field", o->text_field, "the field of JSON objects with the text")
      ->check(not_empty)
      ->option_text("NAME [text]");
  command->add_flag("--json", o->json, "print JSON, for programs");
}

}  // namespace

void add_corpus(Program& program, CLI::App* data, const Commands& commands) {
  CLI::App* build = data->add_subcommand("build", "Make token files of documents");
  add_making(program, build, commands.data_build, kDataBuildFooter);
  add_overlap(program, data, commands.data_overlap);
}

void add_tokenizer(Program& program, int (*run)(const TokenizerTrainOptions&)) {
  CLI::App* tokenizer = program.app.add_subcommand("tokenizer", "Train a vocabulary");
  tokenizer->require_subcommand(1);
  CLI::App* train = tokenizer->add_subcommand("train", "Make a tokenizer's file of documents");
  add_making(program, train, run, kTokenizerTrainFooter);
}

}  // namespace tessera
