#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program_support.hpp"

namespace tessera::testing {

/// A small training in a folder of its own: text, configuration, runs.
class TinyRun {
 public:
  TinyRun();
  /// Absolute path of something in the folder.
  std::string at(const std::string& name) const;
  /// "tessera train" of the configuration with these settings over it.
  std::vector<std::string> command(const std::vector<std::string>& sets) const;
  /// The same in the place of a shell that has run `script`, as "ulimit -f 60".
  std::vector<std::string> command_after(const std::string& script,
                                         const std::vector<std::string>& sets,
                                         const std::string& shell = "sh") const;
  /// Settings for this many steps into the folder `out`.
  static std::vector<std::string> steps(int steps,
                                        const std::string& out,
                                        std::vector<std::string> more = {});
  ProcessResult train(const std::vector<std::string>& sets) const;
  /// In the folder, and marked so that left processes can be found.
  ProcessOptions options() const;
  std::string mark() const;
  /// Waits a little for processes of this folder to be gone; those that are not.
  std::vector<pid_t> survivors() const { return survivors_with(mark()); }
  /// Lines of a run's metrics.jsonl without its speed.
  std::vector<std::string> metrics(const std::string& out) const;
  /// Names of complete checkpoints, sorted as texts.
  std::vector<std::string> checkpoints(const std::string& out) const;

  const TestFolder folder;
};

/// The setting with which a training finds the plugin of fixtures/broken.cpp, too.
std::string broken_plugins();

/// The process among those of a mark that is this rank of our launcher. Throws where there is none:
/// a signal to the process -1 would go to all that there are.
pid_t rank_process(const std::string& mark, int rank);
std::optional<pid_t> find_rank_process(const std::string& mark, int rank);

}  // namespace tessera::testing
