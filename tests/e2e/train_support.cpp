#include "train_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "common/metrics_lines.hpp"

namespace tessera::testing {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig = R"(schema = 1
[run]
name = "tiny"
seed = 11
log_every_steps = 1
[device]
threads = 1
[comm]
timeout_s = 20
[batch]
global = 8
micro = 2
sequence_length = 16
[model]
type = "gpt"
layers = 2
hidden = 24
heads = 6
dropout = 0.1
vocab_multiple = 24
[optimizer]
type = "replicated"
clip = 1.0
[lr]
type = "cosine"
peak = 1e-3
warmup_steps = 4
[data]
type = "text"
path = "text.txt"
[checkpoint]
every_steps = 1000
[observers.console]
every_steps = 1
[observers.metrics]
)";

std::string text() {
  const char* words[] = {"the ", "king ", "and ", "queen ", "of ", "night, ", "day. ", "no "};
  std::string text;
  unsigned next = 7;
  for (int i = 0; i < 2000; ++i) {
    next = next * 1103515245 + 12345;
    text += words[next >> 16 & 7];
  }
  return text;
}

}  // namespace

std::string broken_plugins() {
  return "plugins.path=[\"" TESSERA_BUILD_DIR "/plugins\", \"" TESSERA_BUILD_DIR
         "/tests/plugins/broken\"]";
}

TinyRun::TinyRun() {
  std::string config = kConfig;
  folder.write("tiny.toml", config);
  folder.write("text.txt", text());
}

std::string TinyRun::at(const std::string& name) const { return (folder.path() / name).string(); }

std::vector<std::string> TinyRun::command(const std::vector<std::string>& sets) const {
  std::vector<std::string> command = {tessera_program(), "train", at("tiny.toml")};
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  return command;
}

std::vector<std::string> TinyRun::command_after(const std::string& script,
                                                const std::vector<std::string>& sets,
                                                const std::string& shell) const {
  std::vector<std::string> all = {shell, "-c", script + "; exec \"$@\"", shell};
  const std::vector<std::string> train = command(sets);
  all.insert(all.end(), train.begin(), train.end());
  return all;
}

std::vector<std::string> TinyRun::steps(int steps,
                                        const std::string& out,
                                        std::vector<std::string> more) {
  more.insert(more.begin(), {"run.steps=" + std::to_string(steps), "run.out=" + out});
  return more;
}

ProcessResult TinyRun::train(const std::vector<std::string>& sets) const {
  return run_process(command(sets), options());
}

std::string TinyRun::mark() const { return "TESSERA_TEST_MARK=" + folder.path().string(); }

ProcessOptions TinyRun::options() const {
  return {.environment = {{"TESSERA_TEST_MARK", folder.path().string()}},
          .folder = folder.path().string()};
}

std::vector<std::string> TinyRun::metrics(const std::string& out) const {
  return metrics_lines(at(out));
}

std::vector<std::string> TinyRun::checkpoints(const std::string& out) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(at(out) + "/checkpoints")) {
    if (fs::exists(entry.path() / "index.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

pid_t rank_process(const std::string& mark, int rank) {
  if (const auto pid = find_rank_process(mark, rank)) return *pid;
  throw std::runtime_error(fmt::format("there is no process of rank {}", rank));
}

std::optional<pid_t> find_rank_process(const std::string& mark, int rank) {
  for (const pid_t pid : processes_with(mark)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    const std::string environment = '\0' + std::string(std::istreambuf_iterator<char>(file), {});
    const std::string entry = '\0' + std::string("TESSERA_RANK=") + std::to_string(rank) + '\0';
    if (environment.find(entry) != std::string::npos) return pid;
  }
  return std::nullopt;
}

}  // namespace tessera::testing
