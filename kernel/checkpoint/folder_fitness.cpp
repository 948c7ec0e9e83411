#include "kernel/checkpoint/folder_fitness.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <system_error>
#include <thread>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/comm/control_plane/rank_list.hpp"
#include "kernel/comm/crypto.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A file that its destructor removes. remove_stale() knows the name of one that a killed process
// left.
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

// `blind`: ranks that do not see what rank 0 wrote on host `writer`, with their hosts.
void require_all_saw(const fs::path& folder,
                     const std::vector<std::string>& blind,
                     const std::string& writer) {
  std::map<std::string, std::vector<i64>> by_host;
  for (std::size_t rank = 0; rank < blind.size(); ++rank) {
    if (!blind[rank].empty()) by_host[blind[rank]].push_back(static_cast<i64>(rank));
  }
  if (by_host.empty()) return;
  std::vector<std::string> who;
  std::size_t ranks = 0;
  for (const auto& [host, of_host] : by_host) {
    who.push_back(fmt::format("{} on host {}", rank_list(of_host), host));
    ranks += of_host.size();
  }
  const bool alone = by_host.size() == 1 && by_host.contains(writer);
  fail_config(
      "{} {} not see what rank 0 wrote into {} on host {}: {} have folders of their own there. "
      "Checkpoints need a folder that all {} share: set run.out or checkpoint.out",
      name_list(who),
      ranks == 1 ? "does" : "do",
      written_path(folder),
      writer,
      alone ? "ranks of this host" : "hosts",
      alone ? "ranks" : "hosts");
}

}  // namespace

void require_common(const fs::path& folder,
                    const std::string& run,
                    const ControlPlane& plane,
                    bool root) {
  const fs::path file = temporary_folder(folder, 0, run);
  std::optional<Token> written;
  const std::string said = plane.root("token", [&] {
    const std::string token = hex_text(random_bytes(8));
    written.emplace(file, token);
    return token + " " + host_name();
  });
  const std::size_t blank = said.find(' ');
  const std::string token = said.substr(0, blank), writer = said.substr(blank + 1);
  const std::vector<std::string> blind = plane.all(
      "token seen", [&] { return root || reads_back(file, token) ? std::string() : host_name(); });
  plane.root("token judged", [&] {
    require_all_saw(folder, blind, writer);
    return std::string();
  });
}

void require_room(const fs::path& folder, const RoomWanted& wanted) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const auto bytes = static_cast<double>(wanted.bytes);
  if (free < bytes) {
    fail_config(
        "{} has {} free, and a checkpoint of this run takes {}: make room there, set run.out or "
        "checkpoint.out to a folder on another disk, or train without (checkpoint.save = false)",
        written_path(folder),
        size_text(free),
        size_text(bytes));
  }
  // Old ones are removed after the new one is there.
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
