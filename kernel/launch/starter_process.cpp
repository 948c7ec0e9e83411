#include "kernel/launch/starter_process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tessera {

namespace {

// Nothing of other users' processes.
std::string read_process(pid_t process, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", process, name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// 0 when it cannot be known.
pid_t parent_of(pid_t process) {
  // "123 (name of any kind) S 122 …"
  const std::string text = read_process(process, "stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

}  // namespace

pid_t starter_process(const char* rank_variable) {
  const std::string entry = std::string(1, '\0') + rank_variable + "=";
  pid_t process = getppid();
  while ((std::string(1, '\0') + read_process(process, "environ")).find(entry) !=
         std::string::npos) {
    const pid_t parent = parent_of(process);
    if (parent <= 0) break;
    process = parent;
  }
  return process;
}

}  // namespace tessera
