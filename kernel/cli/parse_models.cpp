#include "kernel/cli/parse_models.hpp"

#include "kernel/cli/footers.hpp"
#include "tessera/bounds.hpp"

namespace tessera {

// Texts that grow together.
constexpr i64 kMostTexts = 4096;

void add_generate(Program& program, int (*run)(const GenerateOptions&)) {
  CLI::App* command =
      program.app.add_subcommand("generate", "Continue a text with a trained model");
  const auto o = program.choose_work(command, run);
  add_path(command, "--checkpoint", o->checkpoint, "folder of a run or of a checkpoint")
      ->required();
  CLI::Option* prompt = command->add_option("--prompt", o->prompt, "text to continue");
  CLI::Option* prompts =
      add_path(command, "--prompts", o->prompts, "file with texts to continue (below)")
          ->check(not_empty)
          ->excludes(prompt)
          ->option_text("FILE");
  command
      ->add_option("--batch",
                   o->batch,
                   "continue N of them together; the memory of what layers keep of earlier tokens "
                   "is N times that of a text of sequence_length tokens")
      ->check(CLI::Range(i64{1}, kMostTexts))
      ->needs(prompts)
      ->option_text("N [8]");
  command
      ->add_option("--ranks",
                   o->ranks,
                   "cut the model over tensor: N processes of this host compute together, each "
                   "with a part of it")
      ->check(CLI::Range(i64{1}, kMostOnAxis))
      ->option_text("N [1]");
  Sampling& s = o->sampling;
  const std::vector<CLI::Option*> sampling = {
      command->add_option("--tokens", o->tokens, "tokens to add")
          ->check(CLI::Range(i64{1}, i64{1} << 31))
          ->capture_default_str(),
      command->add_option("--temperature", s.temperature, "0: always the most likely token")
          ->check(not_negative)
          ->check(finite)
          ->capture_default_str(),
      command->add_option("--top-k", s.top_k, "only the K most likely tokens [all]")
          ->option_text("K"),
      command
          ->add_option(
              "--top-p", s.top_p, "only the fewest of the most likely with probability P [1]")
          ->option_text("P"),
      command
          ->add_option(
              "--min-p", s.min_p, "no token less likely than P times the most likely one [0]")
          ->option_text("P"),
      command
          ->add_option("--repetition-penalty",
                       s.repetition_penalty,
                       "makes tokens that the text has less likely, above 1 [1]")
          ->option_text("X"),
      command->add_option("--stop", o->stops, "end before this text; may be repeated")
          ->allow_extra_args(false)
          ->option_text("TEXT"),
      command->add_flag("--ignore-eos", o->ignore_eos, "go on after a token that ends a text"),
      command->add_option("--seed", s.seed, "seed of the sampling")
          ->check(not_negative)
          ->check(fits_64_bits)
          ->capture_default_str()};
  CLI::Option* json = command->add_flag("--json",
                                        o->json,
                                        "print an object for each prompt, on a line: prompt, text, "
                                        "tokens, end (eos, stop or length)");
  CLI::Option* logits = command->add_flag(
      "--logits", o->logits, "only print the next token's logits, as a JSON array for each prompt");
  CLI::Option* ids =
      command->add_flag("--ids", o->ids, "only print the tokens, as a JSON array for each prompt")
          ->excludes(logits);
  for (CLI::Option* only : {logits, ids}) {
    only->excludes(json);
    for (CLI::Option* other : sampling) only->excludes(other);
  }
  add_plugin_folders(command, o->path);
  add_sets(command, o->sets);
  command->footer(std::string(kPromptsFooter) + kStoredFooter);
}

void add_eval(Program& program, int (*run)(const EvalOptions&)) {
  CLI::App* command = program.app.add_subcommand("eval", "Measure a trained model on a file");
  const auto o = program.choose_work(command, run);
  command->add_option("TASK", o->task, "type of the evaluation")->required();
  add_path(command, "--checkpoint", o->checkpoint, "folder of a run or of a checkpoint")
      ->required();
  add_path(command, "--data", o->data, "the file that it reads")->required();
  command->add_option("--batch", o->batch, "texts or samples of a microbatch")
      ->check(CLI::Range(i64{1}, kMostTexts))
      ->capture_default_str();
  command->add_option("--ranks", o->ranks, "processes of this host that compute together")
      ->check(CLI::Range(i64{1}, kMostOnAxis))
      ->capture_default_str();
  command
      ->add_option("--ensemble",
                   o->ensemble,
                   "further checkpoints: what all of them say of a sample is averaged")
      ->expected(1, kMostOnAxis);
  command
      ->add_option(
          "--seeds", o->seeds, "further checkpoints: each is measured, and the median is named")
      ->expected(1, kMostOnAxis);
  add_path(command, "--test", o->test, "a file that the median of --seeds is measured on, too");
  add_path(
      command, "--scores", o->scores, "a new file, for what the head gives each sample (below)")
      ->check(not_empty)
      ->option_text("FILE");
  command->add_flag("--json", o->json, "print one object a model");
  add_plugin_folders(command, o->path);
  add_sets(command, o->sets);
  // Keys of the evaluation, which it alone knows.
  command->allow_extras();
  command->parse_complete_callback([command, o] { o->keys = command->remaining(); });
  command->footer(std::string(kEvalFooter) + kStoredFooter);
}

void add_checkpoint(Program& program, const Commands& commands) {
  CLI::App* command = program.app.add_subcommand(
      "checkpoint", "List, verify, compare, export and reshard checkpoints");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* doc, CheckpointOptions::Action action) {
    CLI::App* sub = command->add_subcommand(name, doc);
    const auto o = program.choose_work(sub, commands.checkpoint);
    o->action = action;
    add_path(sub, "DIR", o->folder, "folder of a run or of checkpoints")->required();
    return sub;
  };
  add("list", "Which checkpoints are there", CheckpointOptions::list);
  add("verify", "Read all complete checkpoints and compare checksums", CheckpointOptions::verify)
      ->footer(
          "Exit codes: 0 all are whole; 1 one is damaged, or one that is newer than all complete\n"
          "ones lost its index.json (a warning names it); 2 usage, or no complete one is there.");

  const std::string one = "a checkpoint, or a run, whose newest is taken";
  CLI::App* diff = command->add_subcommand("diff", "Tensors in which two checkpoints differ");
  const auto d = program.choose_work(diff, commands.checkpoint_diff);
  add_path(diff, "A", d->a, one)->required();
  add_path(diff, "B", d->b, one)->required();
  diff->add_option("--tolerance",
                   d->tolerance,
                   "largest difference of an element, relative to the tensor's magnitude")
      ->check(not_negative)
      ->check(finite)
      ->option_text("T [0]");
  diff->add_flag("--json", d->json, "print JSON, for programs");
  diff->footer(kDiffFooter);

  CLI::App* export_command =
      command->add_subcommand("export", "Write the parameters into one safetensors file");
  const auto e = program.choose_work(export_command, commands.checkpoint_export);
  add_path(export_command, "DIR", e->folder, one)->required();
  add_path(export_command, "FILE", e->file, "a new file")->check(not_empty)->required();
  export_command->add_option("--dtype", e->dtype, "round floating values to it [as they are]")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));

  CLI::App* reshard = command->add_subcommand(
      "reshard", "Write a checkpoint as another layout would have saved it");
  const auto r = program.choose_work(reshard, commands.checkpoint_reshard);
  add_path(reshard, "DIR", r->folder, one)->required();
  add_path(reshard, "OUT", r->out, "the folder that its step-N is made in")
      ->check(not_empty)
      ->required();
  add_plugin_folders(reshard, r->path);
  add_sets(reshard, r->sets);
  reshard->footer(std::string(kReshardFooter) + kStoredFooter);
}

void add_convert(Program& program, int (*run)(const ConvertOptions&)) {
  CLI::App* command = program.app.add_subcommand(
      "convert", "Convert a model of Hugging Face transformers to a checkpoint, or back");
  const auto o = program.choose_work(command, run);
  add_path(command, "--from", o->from, "a folder with a config.json, or a checkpoint, or a run")
      ->required()
      ->option_text("DIR REQUIRED");  // an option's own text hides the parser's word
  add_path(command, "--to", o->to, "a new folder, for the other kind")
      ->required()
      ->check(not_empty)
      ->option_text("DIR REQUIRED");
  command
      ->add_option("--converter", o->converter, "as `tessera plugins` lists it [the one that fits]")
      ->check(not_empty);
  command->add_flag("--no-tokenizer", o->no_tokenizer, "convert the model alone");
  command
      ->add_option("--max-shard-size",
                   o->max_shard_size,
                   "split a model that is written into files of at most this size")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(u64{1}, u64{1} << 62))
      ->option_text("SIZE [5GB]");
  command
      ->add_option(
          "--dtype",
          o->dtype,
          "round the parameters of a model that is written to it [checkpoint.convert_dtype "
          "of the run]")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  add_plugin_folders(command, o->path);
  command->footer(kConvertFooter);
}

}  // namespace tessera
