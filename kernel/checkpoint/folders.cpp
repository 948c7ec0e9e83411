#include "kernel/checkpoint/folders.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/index.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShown = 400;  // characters of a path in an error
constexpr std::string_view kPrefix = "step-", kOld = ".old", kTemporary = ".tmp";

struct StepName {
  i64 step = 0;
  std::string suffix;  // ".old", ".<run>.tmp" or nothing
};

std::optional<StepName> parse_name(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  StepName parsed;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, parsed.step);
  if (error != std::errc() || parsed.step < 0) return std::nullopt;
  parsed.suffix.assign(at, end);
  if (!parsed.suffix.empty() && parsed.suffix[0] != '.') return std::nullopt;
  return parsed;
}

std::string temporary_suffix(const std::string& run) {
  std::string name = run;
  for (char& c : name) {
    if (c == '/' || c == '\0') c = '_';
  }
  return fmt::format(".{}{}", name, kTemporary);
}

// Moves away what is not ours to remove: somebody else's, or a checkpoint that lost its index.
void move_away(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  fs::path to = numbered_path(path.string());
  while (!rename_new(path, to)) to = numbered_path(path.string());
  log_warning("{} was there and is not a checkpoint: it is kept as {}",
              path.string(),
              to.filename().string());
}

// A link that leads nowhere, or in a circle, counts as nothing.
bool is_nothing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory ||
         error == std::errc::too_many_symbolic_link_levels;
}

// Throws where a path cannot be looked at, as something may be there.
void require_known(const fs::path& path, const std::error_code& error) {
  require(
      !error || is_nothing(error), "cannot read {}: {}", written_path(path), SystemError(error));
}

bool has_index(const fs::path& folder) {
  std::error_code error;
  const bool there = fs::exists(folder / kIndexName, error);
  require_known(folder / kIndexName, error);
  return there;
}

// A link to a folder is one too: a step may lie on another disk.
bool is_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  require_known(path, error);
  return false;
}

std::vector<std::pair<StepName, fs::path>> entries(const fs::path& folder) {
  std::vector<std::pair<StepName, fs::path>> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (is_nothing(error)) return found;
  require(!error, "cannot read {}: {}", written_path(folder), SystemError(error));
  for (const fs::directory_entry& entry : at) {
    if (auto name = parse_name(entry.path())) found.emplace_back(std::move(*name), entry.path());
  }
  return found;
}

}  // namespace

fs::path step_folder(const fs::path& folder, i64 step) {
  return folder / fmt::format("{}{}", kPrefix, step);
}

fs::path temporary_folder(const fs::path& folder, i64 step, const std::string& run) {
  return step_folder(folder, step).string() + temporary_suffix(run);
}

std::vector<StepFolder> step_folders(const fs::path& folder) {
  std::vector<StepFolder> found;
  for (const auto& [name, path] : entries(folder)) {
    if (name.suffix == kOld && has_index(step_folder(folder, name.step))) continue;
    const bool temporary = name.suffix.ends_with(kTemporary);
    if (!name.suffix.empty() && name.suffix != kOld && !temporary) continue;
    // Not in entries(), which must list files of temporary names: a save removes them.
    if (!is_folder(path)) continue;
    found.push_back({name.step, path, !temporary && has_index(path)});
  }
  std::ranges::sort(found, [](const StepFolder& a, const StepFolder& b) {
    return a.step != b.step ? a.step > b.step : a.path < b.path;
  });
  return found;
}

std::vector<fs::path> complete_steps(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const StepFolder& found : step_folders(folder)) {
    if (found.complete) paths.push_back(found.path);
  }
  return paths;
}

bool warn_of_incomplete(const fs::path& folder) {
  bool any = false;
  for (const StepFolder& found : step_folders(folder)) {
    if (found.complete) break;
    if (found.path.extension() == kTemporary) continue;
    any = true;
    log_warning(
        "{} is not complete, it has no {}: it is passed over", found.path.string(), kIndexName);
  }
  return any;
}

bool warn_of_incomplete(const fs::path& named, const fs::path& newest) {
  return newest != named && warn_of_incomplete(newest.parent_path());
}

std::vector<fs::path> find_checkpoints(const fs::path& named) {
  std::error_code error;
  if (!fs::exists(named, error)) {
    fail_config("there is no checkpoint {}{}",
                written_plain(named.string(), kShown),
                error ? ": " + error.message() : "");
  }
  if (!fs::is_directory(named)) {
    fail_config("{} is not a folder", written_plain(named.string(), kShown));
  }
  if (has_index(named)) return {named};
  for (const fs::path& folder : {named, named / "checkpoints"}) {
    if (std::vector<fs::path> steps = complete_steps(folder); !steps.empty()) return steps;
  }
  fail_config(
      "{} holds no complete checkpoint; a complete one has an {}", named.string(), kIndexName);
}

fs::path newest_checkpoint(const fs::path& named) {
  fs::path newest = find_checkpoints(named).front();
  warn_of_incomplete(named, newest);
  return newest;
}

void require_no_mixture(const fs::path& folder, const std::string& resume) {
  if (resume == "auto") return;
  const std::vector<fs::path> there = complete_steps(folder);
  if (there.empty()) return;
  const bool anew = resume == "none";
  if (!anew && fs::equivalent(find_checkpoints(resume).front(), there.front())) return;
  fail_config(
      "checkpoint.resume = {} {}, but {} holds checkpoints of an earlier run (the newest is "
      "{}), and this run's files would mix with its: set another run.out or checkpoint.out, or "
      "move that folder away, or go on from it with resume = \"auto\"",
      quote(resume, kShown),
      anew ? "starts anew" : "goes on from another one",
      folder.string(),
      there.front().filename().string());
}

void remove_old(const fs::path& folder, i64 newest, i64 keep, const std::string& run) {
  i64 kept = 0;
  for (const StepFolder& found : step_folders(folder)) {
    if (!found.complete || found.step > newest || ++kept <= keep) continue;
    // Renamed first: half of a checkpoint must not look like one.
    const fs::path leaving = temporary_folder(folder, found.step, run);
    fs::remove_all(leaving);
    fs::rename(found.path, leaving);
    fs::remove_all(leaving);
  }
}

void give_up_step(const fs::path& path) {
  const fs::path bad = path.string() + ".bad";
  fs::remove_all(bad);
  fs::rename(path, bad);
  sync_folder(path.parent_path());
}

void remove_stale(const fs::path& folder, const std::string& run) {
  for (const auto& [name, path] : entries(folder)) {
    const bool replaced = name.suffix == kOld && has_index(step_folder(folder, name.step));
    if (replaced || name.suffix == temporary_suffix(run)) fs::remove_all(path);
  }
}

void replace_folder(const fs::path& temporary, const fs::path& target) {
  const fs::path old = target.string() + std::string(kOld);
  if (has_index(target)) {
    fs::remove_all(old);
    fs::rename(target, old);
  } else {
    move_away(target);
  }
  fs::rename(temporary, target);
  sync_folder(target.parent_path());
  std::error_code ignored;  // remove_stale tries again
  fs::remove_all(old, ignored);
}

}  // namespace tessera
