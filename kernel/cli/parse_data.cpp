#include "kernel/cli/parse_data.hpp"

#include "kernel/cli/parse_corpus.hpp"
#include "tessera/bounds.hpp"

namespace tessera {

namespace {

constexpr const char* kPrefix = "the prefix of both files, without .idx";

void add_show(Program& program, CLI::App* data, int (*run)(const DataShowOptions&)) {
  CLI::App* command =
      data->add_subcommand("show", "What a token file holds, or which documents a step reads");
  const auto o = program.choose(command, run);
  CLI::Option* prefix = add_path(command, "PREFIX", o->prefix, kPrefix);
  command->add_option("--document", o->document, "print the ids of this one, from 0 on")
      ->check(not_negative)
      ->check(fits_64_bits)
      ->needs(prefix)
      ->option_text("N");
  CLI::Option* of_run =
      add_path(command, "--run", o->run, "folder of a run: where samples of a step come from")
          ->check(not_empty)
          ->excludes(prefix);
  of_run->needs(command->add_option("--step", o->step, "that step, from 1 on")
                    ->check(CLI::Range(i64{1}, kMostSteps))
                    ->needs(of_run)
                    ->option_text("N"));
  add_plugin_folders(command, o->path);
  add_sets(command, o->sets);
  command->add_flag("--json", o->json, "print JSON, for programs");
}

void add_verify(Program& program, CLI::App* data, int (*run)(const DataVerifyOptions&)) {
  CLI::App* command = data->add_subcommand("verify", "Read all of a token file");
  const auto o = program.choose(command, run);
  add_path(command, "PREFIX", o->prefix, kPrefix)->required();
  command->add_option("--vocabulary", o->vocabulary, "ids have to be below it [any id]")
      ->check(CLI::Range(i64{1}, kMostVocabulary))
      ->option_text("N");
  command->footer("Exit codes: 0 it is good; 1 it is damaged, or ids are outside; 2 usage.");
}

void add_merge(Program& program, CLI::App* data, int (*run)(const DataMergeOptions&)) {
  CLI::App* command =
      data->add_subcommand("merge", "Write the documents of several token files as one");
  const auto o = program.choose_work(command, run);
  add_path(command, "TO", o->to, "a new prefix")->check(not_empty)->required();
  add_path(command, "FROM", o->from, "prefixes of the files, in this order")->required();
}

void add_split(Program& program, CLI::App* data, int (*run)(const DataSplitOptions&)) {
  CLI::App* command =
      data->add_subcommand("split", "Write the documents of a token file as several");
  const auto o = program.choose_work(command, run);
  add_path(command, "FROM", o->from, kPrefix)->required();
  command
      ->add_option(
          "--shares", o->shares, "shares of the documents, in their order, one for each new file")
      ->required()
      ->option_text("A,B,... REQUIRED");
  add_path(command, "TO", o->to, "new prefixes")->check(not_empty)->required();
}

}  // namespace

void add_data(Program& program, const Commands& commands) {
  CLI::App* data = program.app.add_subcommand(
      "data", "Build token files of documents; show, verify, merge and split them");
  data->require_subcommand(1);
  add_corpus(program, data, commands);
  add_show(program, data, commands.data_show);
  add_verify(program, data, commands.data_verify);
  add_merge(program, data, commands.data_merge);
  add_split(program, data, commands.data_split);
}

}  // namespace tessera
