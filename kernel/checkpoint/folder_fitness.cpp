#include "kernel/checkpoint/folder_fitness.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/comm/crypto.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/size_text.hpp"
#include "tessera/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A file that is removed again. One that is killed with its process has a name that remove_stale()
// knows.
class Token {
 public:
  Token(fs::path file, const std::string& text) : file_(std::move(file)) {
    write_synced(file_, text);
  }
  ~Token() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

 private:
  fs::path file_;
};

// A network's file system may show a new file a moment later on other hosts.
bool reads_back(const fs::path& file, const std::string& token) {
  constexpr auto kPatience = 3s;
  constexpr auto kBetween = 100ms;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    try {
      if (read_text_file(file) == token) return true;
    } catch (const Error&) {  // not there yet
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kBetween);
  }
}

}  // namespace

void require_common(const fs::path& folder,
                    const std::string& run,
                    const Together& together,
                    bool root) {
  const fs::path file = temporary_folder(folder, 0, run);
  std::optional<Token> written;
  const std::string said = together.root("token", [&] {
    const std::string token = hex_text(random_bytes(8));
    written.emplace(file, token);
    return token + " " + host_name();
  });
  const std::size_t blank = said.find(' ');
  const std::string token = said.substr(0, blank), writer = said.substr(blank + 1);
  together.all("token seen", [&] {
    if (!root && !reads_back(file, token)) {
      const std::string here = host_name();
      fail(
          "{} does not see what rank 0 wrote into {}{}: hosts have folders of their own there. "
          "Checkpoints need a folder that all hosts share: set run.out or checkpoint.out",
          here == writer ? "another rank" : "host " + here,
          written_path(folder),
          here == writer ? "" : " on host " + writer);
    }
    return std::string();
  });
}

void require_room(const fs::path& folder, const RoomWanted& wanted) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const auto bytes = static_cast<double>(wanted.bytes);
  if (free < bytes) {
    fail(
        "{} has {} free, and a checkpoint of this run takes {}: make room there, set run.out or "
        "checkpoint.out to a folder on another disk, or train without (checkpoint.save = false)",
        written_path(folder),
        size_text(free),
        size_text(bytes));
  }
  // Old ones go after the new one is there.
  const auto there = static_cast<i64>(complete_steps(folder).size());
  const i64 most =
      wanted.keep == 0 ? there + wanted.saves : std::min(there + wanted.saves, wanted.keep + 1);
  const i64 more = std::max<i64>(most - there, 1);
  if (free >= static_cast<double>(more) * bytes) return;
  log_warning(
      "{} has {} free, which is less than {} more checkpoints of {} take (checkpoint.keep = {})",
      written_path(folder),
      size_text(free),
      more,
      size_text(bytes),
      wanted.keep);
}

}  // namespace tessera
