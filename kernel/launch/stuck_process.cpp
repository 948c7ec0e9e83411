#include "kernel/launch/stuck_process.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

namespace tessera {

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The functions of the kernel that a thread is in, the innermost first, from lines as "[<0>]
// nfs_wait_bit_killable+0x1f/0x90". Only root may read them.
std::vector<std::string> kernel_stack(const fs::path& file) {
  constexpr std::size_t kShown = 5;
  std::istringstream lines(text_of(file));
  std::vector<std::string> functions;
  for (std::string line; functions.size() < kShown && std::getline(lines, line);) {
    const std::size_t begin = line.find("] ");
    if (begin == std::string::npos) continue;
    functions.push_back(line.substr(begin + 2, line.find('+', begin) - begin - 2));
  }
  return functions;
}

// Where a thread waits in the system; empty where nobody says.
std::string wait_text(const fs::path& thread) {
  std::vector<std::string> functions = kernel_stack(thread / "stack");
  if (functions.empty()) {
    const std::string name = text_of(thread / "wchan");
    if (!name.empty() && name != "0") functions.push_back(name);
  }
  if (functions.empty()) return {};
  std::string text = " and waits in " + functions.front();
  functions.erase(functions.begin());
  if (!functions.empty()) text += fmt::format(", called by {}", fmt::join(functions, ", "));
  return text;
}

// Sorted by number, so that the first thread comes first.
std::vector<long> threads_of(const fs::path& process) {
  std::vector<long> threads;
  std::error_code error;
  for (fs::directory_iterator at(process / "task", error), end; !error && at != end;
       at.increment(error)) {
    threads.push_back(std::strtol(at->path().filename().c_str(), nullptr, 10));
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

}  // namespace

char process_state(const fs::path& stat) {
  const std::string text = text_of(stat);  // "123 (name of any kind) T 122 …"
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

std::string stuck_text(pid_t pid, const fs::path& proc) {
  const fs::path process = proc / std::to_string(pid);
  const std::vector<long> threads = threads_of(process);
  const auto waits = [&](long thread) {
    return process_state(process / "task" / std::to_string(thread) / "stat") == 'D';
  };
  const auto first = std::find_if(threads.begin(), threads.end(), waits);
  if (first == threads.end()) {
    const char state = process_state(process / "stat");
    return state == '\0' ? fmt::format("process {} is gone", pid)
                         : fmt::format("process {} is in state {}", pid, state);
  }
  const auto more = std::count_if(first + 1, threads.end(), waits);
  return fmt::format("{}process {} is in state D (no signal reaches it){}{}",
                     *first == pid ? "" : fmt::format("thread {} of ", *first),
                     pid,
                     wait_text(process / "task" / std::to_string(*first)),
                     more == 0 ? "" : fmt::format(" (and {} more of its threads)", more));
}

}  // namespace tessera
