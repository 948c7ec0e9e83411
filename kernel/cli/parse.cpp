#include "kernel/cli/parse.hpp"

#include "kernel/cli/footers.hpp"
#include "kernel/cli/parse_corpus.hpp"
#include "kernel/cli/parse_data.hpp"
#include "kernel/cli/parse_models.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/version.hpp"
#include "kernel/launch/signals.hpp"
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
  if (commands.eval != nullptr) add_eval(program, commands.eval);
  if (commands.checkpoint != nullptr) add_checkpoint(program, commands);
  if (commands.data_show != nullptr) add_data(program, commands);
  if (commands.tokenizer_train != nullptr) add_tokenizer(program, commands.tokenizer_train);
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
