// The only file that includes CLI11: what the command line looks like.
#include "kernel/cli/parse.hpp"
#include "kernel/cli/footers.hpp"
#include "kernel/cli/show.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kernel/config/home_path.hpp"
#include "kernel/config/version.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/launch/starvation_watch.hpp"
#include "kernel/plugin/abi.hpp"
#include "kernel/plugin/check.hpp"
#include "kernel/plugin/crash_watch.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/base/value.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"

namespace tessera {
namespace {

constexpr int kUsage = 2;

int failed(const Error& error) {
  show_error("{}\n", with_limit(error).what());
  return error.exit_code();
}

// A subcommand with its options, which live as long as the parser, and what to do when it is
// chosen.
struct Program {
  CLI::App app{"Trains transformer language models; every part is a plugin, chosen by name."};
  std::function<int()> chosen;

  // Makes a command that only looks: it starts no process, except to ask a driver for its units.
  template <class Options>
  std::shared_ptr<Options> choose(CLI::App* command, int (*run)(const Options&)) {
    return add<Options>(command, run);
  }

  // Makes a command that computes, which the system may kill because memory ran out.
  template <class Options>
  std::shared_ptr<Options> choose_work(CLI::App* command, int (*run)(const Options&)) {
    return add<Options>(command, [run](const Options& options) {
      std::optional<StarvationWatch> watch;
      if (std::getenv(kReportVariable) == nullptr) watch.emplace();  // its launcher would see it
      return run(options);
    });
  }

 private:
  template <class Options, class Run>
  std::shared_ptr<Options> add(CLI::App* command, Run run) {
    auto options = std::make_shared<Options>();
    command->callback([this, options, run] { chosen = [options, run] { return run(*options); }; });
    return options;
  }
};

// A word of the command line that is a path: a shell leaves the ~ of --out=~/x as it is.
template <class T>
CLI::Option* add_path(CLI::App* command, std::string name, T& value, std::string doc = "") {
  const auto expand = [](const std::string& text) {
    try {
      return expand_home(text);
    } catch (const ConfigError& error) {
      throw CLI::ValidationError(error.what());
    }
  };
  return command->add_option(std::move(name), value, std::move(doc))->transform(expand);
}

// Folders of plugins.
void add_plugin_folders(CLI::App* command, std::vector<std::string>& folders) {
  add_path(command, "--path", folders, "a plugin folder to search before all others")
      ->allow_extra_args(false)
      ->option_text("DIR ...");
}

void add_files(CLI::App* command, std::vector<std::string>& files) {
  add_path(command, "FILES", files, "configuration files, later ones over earlier ones")
      ->required();
}

void add_sets(CLI::App* command, std::vector<std::string>& sets) {
  command
      ->add_option(
          "--set", sets, "overrides one key of the configuration; repeatable; VALUE as in TOML")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE ...");
}

// CLI11 reads -1 into an unsigned number, and the text of its own check speaks of doubles.
std::string not_negative(const std::string& text) {
  return text.starts_with("-") ? text + " is negative" : std::string();
}

// CLI11 reads a number that is too large as the largest one.
std::string fits_64_bits(const std::string& text) {
  u64 value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc::result_out_of_range ? text + " does not fit into 64 bits"
                                                   : std::string();
}

std::string finite(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return std::isfinite(value) ? std::string() : text + " is not a finite number";
}

std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : std::string(); }

void add_train(Program& program, int (*run)(const TrainOptions&)) {
  CLI::App* command = program.app.add_subcommand("train", "Train as configured");
  const auto o = program.choose_work(command, run);
  add_files(command, o->files);
  add_sets(command, o->sets);
  command
      ->add_option("--restarts",
                   o->restarts,
                   "restart all ranks from the newest checkpoint after a failure, up to N times")
      ->check(CLI::Range(i64{0}, (i64{1} << 31) - 1))
      ->option_text("N [0]");
  command->add_flag("--json", o->json, "one JSON object a line, for programs");
  command->footer(kTrainFooter);
}

void add_plan(Program& program, int (*run)(const PlanOptions&)) {
  CLI::App* command = program.app.add_subcommand(
      "plan", "Predict groups, memory, messages and time of a training; starts no rank");
  const auto o = program.choose(command, run);
  add_files(command, o->files);
  add_sets(command, o->sets);
  add_path(command, "--hardware", o->hardware, "a hardware table, like those of configs/hardware")
      ->check(not_empty)
      ->option_text("FILE [built in: a small CPU host]");
  add_path(command, "--svg", o->svg, "draw the step's timeline into this file")
      ->check(not_empty)
      ->option_text("FILE");
  add_path(command,
           "--trace",
           o->trace,
           "write the step into this file, as observers.trace does: a process for each class of "
           "ranks, without memory")
      ->check(not_empty)
      ->option_text("FILE");
  command->add_option("--world", o->world, "number of ranks [as configured]")
      ->check(CLI::Range(i64{1}, kMostRanks));
  command
      ->add_option(
          "--memory",
          o->memory,
          "memory of each device, or of each host where its ranks share it, that the run has "
          "to fit into: 80GiB, 512MB [the table's]")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(u64{1}, u64{1} << 62))
      ->option_text("SIZE");
  command
      ->add_option("--imbalance",
                   o->imbalance,
                   "plan every rank as the one whose experts have most rows, this times the mean")
      ->check(finite)
      ->check(CLI::Range(1.0, 1e6))
      ->option_text("FACTOR [1]");
  command->add_flag(
      "--optimizer-ranges",
      o->optimizer_ranges,
      "only the elements of each parameter that each rank updates, of one group of replicas a "
      "pipeline rank: the others have the same ranges");
  command->add_flag("--json", o->json, "print JSON, for programs");
  command->footer(
      "Exit codes: 0 planned, and it fits where --memory or the table says how much there is; 1\n"
      "failed; 2 usage or configuration; 4 planned, and it does not fit.");
}

void add_calibrate(Program& program, int (*run)(const CalibrateOptions&)) {
  CLI::App* command = program.app.add_subcommand(
      "calibrate", "Measure this host: a hardware table for `plan`, in some ten seconds");
  const auto o = program.choose_work(command, run);
  add_path(command, "--out", o->out, "write the table into this file [standard output]")
      ->check(not_empty)
      ->option_text("FILE");
  command
      ->add_option("--ranks",
                   o->ranks,
                   "ranks that will share this host; all measure at once [2, or 1 where the device "
                   "has memory of its own]")
      ->check(CLI::Range(1, 256));
  command->add_option("--threads", o->threads, "CPU threads of a rank [its share of the CPUs]")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option(
          "--device", o->device, "a device, as in device.type, \"auto\" too [the default's]")
      ->check(not_empty);
  command->add_option("--name", o->name, "name of the table in reports")->check(not_empty);
  add_plugin_folders(command, o->path);
}

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
  command->add_option("--tokens", o->tokens, "tokens to add")
      ->check(CLI::Range(i64{1}, i64{1} << 31))
      ->capture_default_str();
  Sampling& s = o->sampling;
  command->add_option("--temperature", s.temperature, "0: always the most likely token")
      ->check(not_negative)
      ->check(finite)
      ->capture_default_str();
  command->add_option("--top-k", s.top_k, "only the K most likely tokens [all]")->option_text("K");
  command
      ->add_option("--top-p", s.top_p, "only the fewest of the most likely with probability P [1]")
      ->option_text("P");
  command
      ->add_option("--min-p", s.min_p, "no token less likely than P times the most likely one [0]")
      ->option_text("P");
  command
      ->add_option("--repetition-penalty",
                   s.repetition_penalty,
                   "makes tokens that the text has less likely, above 1 [1]")
      ->option_text("X");
  command->add_option("--stop", o->stops, "end before this text; may be repeated")
      ->allow_extra_args(false)
      ->option_text("TEXT");
  command->add_flag("--ignore-eos", o->ignore_eos, "go on after a token that ends a text");
  command->add_option("--seed", s.seed, "seed of the sampling")
      ->check(not_negative)
      ->check(fits_64_bits)
      ->capture_default_str();
  CLI::Option* json = command->add_flag("--json",
                                        o->json,
                                        "print an object for each prompt, on a line: prompt, text, "
                                        "tokens, end (eos, stop or length)");
  command
      ->add_flag("--logits",
                 o->logits,
                 "only print the next token's logits, as a JSON array for each prompt")
      ->excludes(
          command
              ->add_flag("--ids", o->ids, "only print the tokens, as a JSON array for each prompt")
              ->excludes(json))
      ->excludes(json);
  add_plugin_folders(command, o->path);
  add_sets(command, o->sets);
  command->footer(std::string(kPromptsFooter) + kStoredFooter);
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

void add_ranks(Program& program, int (*run)(const RanksOptions&)) {
  CLI::App* command = program.app.add_subcommand("ranks", "Print which ranks form which groups");
  const auto o = program.choose(command, run);
  Layout& l = o->layout;
  command->add_option("--world-size,--world_size", l.world, "number of ranks")->required();
  command->add_option("--tp", l.tensor, "tensor parallel size")->capture_default_str();
  command->add_option("--cp", l.context, "context parallel size")->capture_default_str();
  command->add_option("--pp", l.pipeline, "pipeline parallel size")->capture_default_str();
  command->add_option("--etp", l.expert_tensor, "tensor parallel size of experts [as --tp]")
      ->check(CLI::Range(i64{1}, kMostRanks));
  command->add_option("--ep", l.expert, "expert parallel size")->capture_default_str();
  command->add_option("--order", l.order, "fastest first")->capture_default_str();
  command->add_option("--group", o->group, "only these groups, e.g. tp-dp or etp-ep")
      ->check(not_empty);
  add_path(command, "--svg", o->svg, "draw into this file which ranks share a group")
      ->check(not_empty)
      ->option_text("FILE");
  command->add_flag("--json", o->json, "print JSON, for programs");
}

void add_schedule(Program& program, int (*run)(const ScheduleOptions&)) {
  CLI::App* command = program.app.add_subcommand(
      "schedule", "Verify and draw a pipeline schedule, without a model or ranks");
  const auto o = program.choose(command, run);
  command->add_option("TYPE", o->type, "a schedule, as in schedule.type")->required();
  command->add_option("--ranks", o->ranks, "ranks in the pipeline")
      ->required()
      ->check(CLI::Range(1, 4096));
  command->add_option("--chunks", o->chunks, "model chunks a rank [as the schedule has it]")
      ->check(CLI::Range(1, 1024));
  command->add_option("--microbatches", o->microbatches, "microbatches in a step")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--set", o->sets, "overrides one key of the schedule; repeatable")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE ...");
  command
      ->add_option(
          "--layers",
          o->layers,
          "print the order layer by layer, for 1,2 layers in the chunks of a rank, or one number")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->option_text("N,...");
  command->add_flag("--forward-only", o->forward_only, "as in validation");
  add_path(command, "--svg", o->svg, "draw into this file")->check(not_empty)->option_text("FILE");
  add_plugin_folders(command, o->path);
  command->add_flag("--json", o->json, "print JSON, for programs");
}

void add_plugins(Program& program, const Commands& commands) {
  CLI::App* command = program.app.add_subcommand(
      "plugins", "List plugins and what they bring; show the keys of a component");
  command->require_subcommand(0, 1);
  const auto list = std::make_shared<PluginsOptions>();
  add_plugin_folders(command, list->path);
  command->callback([&program, command, list, run = commands.plugins_list] {
    if (command->get_subcommands().empty()) program.chosen = [list, run] { return run(*list); };
  });

  CLI::App* show = command->add_subcommand("show", "The keys of one component");
  const auto show_options = program.choose(show, commands.plugins_show);
  show->add_option("KIND/NAME", show_options->subject, "as `tessera plugins` lists it")->required();
  add_plugin_folders(show, show_options->path);

  CLI::App* check =
      command->add_subcommand("check", "Tries to load a plugin, in a separate process");
  const auto check_options = program.choose(check, commands.plugins_check);
  add_path(check, "FILE", check_options->subject, "a plugin's .so")->required();

  CLI::App* child = command->add_subcommand(kPluginCheckCommand)->group("");  // hidden
  const auto child_options = program.choose(child, commands.plugins_check_child);
  child->add_option("FILE", child_options->subject)->required();
}

void add_new(Program& program, int (*run)(const NewOptions&)) {
  CLI::App* command =
      program.app.add_subcommand("new", "Write a plugin to start from: sources, build, test");
  const auto o = program.choose(command, run);
  command->add_option("KIND", o->kind, "what it brings: layer, rule, observer, …")->required();
  command->add_option("NAME", o->name, "name of the plugin and its component: a-z, 0-9, _")
      ->required();
  add_path(command, "--into", o->into, "make its folder in this one [the working folder]")
      ->check(not_empty)
      ->option_text("DIR");
}

void add_config(Program& program, const Commands& commands) {
  CLI::App* command = program.app.add_subcommand(
      "config", "Check, print and compare configurations, without a run");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* doc, int (*run)(const ConfigOptions&)) {
    CLI::App* sub = command->add_subcommand(name, doc);
    const auto o = program.choose(sub, run);
    add_files(sub, o->files);
    add_sets(sub, o->sets);
    return std::pair(sub, o);
  };
  const auto [check, checked] =
      add("check",
          "Report every problem that a run would have, and the number of warnings",
          commands.config_check);
  check->add_flag("--strict", checked->strict, "warnings are an error: the exit code is 2");
  add("dump", "Print every key in effect, with its origin", commands.config_dump);

  CLI::App* diff =
      command->add_subcommand("diff", "Keys in which two files differ, derived ones left out");
  const auto d = program.choose(diff, commands.config_diff);
  d->files.resize(2);
  add_path(diff, "A", d->files[0], "a configuration file")->required();
  add_path(diff, "B", d->files[1], "another; the two are not merged")->required();
  add_sets(diff, d->sets);

  CLI::App* keys = command->add_subcommand("keys", "Print every key, with its meaning");
  const auto o = program.choose(keys, commands.config_keys);
  keys->add_option("SECTION", o->section, "only this table and those in it: model.block");
  const auto add_format = [&](const char* name, const char* doc, KeysOptions::Format format) {
    return keys->add_flag_callback(
        name, [o, format] { o->format = format; }, doc);
  };
  CLI::Option* markdown =
      add_format("--markdown", "as configs/REFERENCE.md has it", KeysOptions::markdown);
  add_format("--megatron",
             "Megatron-LM's flags and the keys that they are here, as Markdown",
             KeysOptions::megatron)
      ->excludes(markdown);
  add_plugin_folders(keys, o->path);
}

std::string version() {
  return fmt::format(
      "tessera {}\nSDK ABI {} ({})", version_text(), host_abi_stamp(), host_abi_fields());
}

// The command that was named last, and how it was called.
std::pair<const CLI::App*, std::string> named_command(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string name = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return {at, name};
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, name] = named_command(app);
  std::string text = error.what();
  std::vector<std::string> known;
  for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) known.push_back(sub->get_name());
  }
  // For a misspelt command CLI11 only says that it was not expected, or that one is missing.
  const std::vector<std::string> rest = command->remaining();
  if (!known.empty() && !rest.empty() && !rest[0].starts_with("-")) {
    text = fmt::format("there is no command {}", Value(fmt::format("{} {}", name, rest[0])).text());
    if (const auto near = nearest(rest[0], known)) {
      text += fmt::format("; did you mean \"{}\"?", *near);
    }
  }
  return fmt::format("{}\n  see {} --help\n", text, name);
}

int finish(int code) {
  if (code == kOutputClosed) return code;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  show_error("standard output cannot be written\n");
  return code == 0 ? 1 : code;
}

}  // namespace

int run_program(int argc, const char* const* argv, const Commands& commands) {
  Program program;
  CLI::App& app = program.app;
  app.name("tessera");
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  if (commands.train != nullptr) add_train(program, commands.train);
  if (commands.plan != nullptr) add_plan(program, commands.plan);
  if (commands.calibrate != nullptr) add_calibrate(program, commands.calibrate);
  if (commands.generate != nullptr) add_generate(program, commands.generate);
  if (commands.checkpoint != nullptr) add_checkpoint(program, commands);
  if (commands.convert != nullptr) add_convert(program, commands.convert);
  if (commands.ranks != nullptr) add_ranks(program, commands.ranks);
  if (commands.schedule != nullptr) add_schedule(program, commands.schedule);
  if (commands.plugins_list != nullptr) add_plugins(program, commands);
  if (commands.new_plugin != nullptr) add_new(program, commands.new_plugin);
  if (commands.config_check != nullptr) add_config(program, commands);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return finish(0);
    }
    show_error("{}", usage_error(app, error));
    return kUsage;
  }
  try {
    require_stack();
    const CrashWatch crash;
    return finish(program.chosen());
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(Error(path_error(error)).add(resource_of(error.code().value())));
  } catch (...) {
    return failed(error_in_flight());
  }
}

}  // namespace tessera
