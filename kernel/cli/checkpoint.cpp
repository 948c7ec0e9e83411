#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <system_error>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

std::string date_of(const fs::path& path) {
  struct stat status {};
  require(::stat(path.c_str(), &status) == 0, "cannot inspect {}", written_path(path));
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(status.st_mtime));
}

i64 bytes_in(const fs::path& folder) {
  i64 bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::error_code error;  // a link in a circle, a file that was removed meanwhile
    if (!entry.is_regular_file(error)) continue;
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += static_cast<i64>(size);
  }
  return bytes;
}

// What its index says at a glance; reads no tensor.
std::string state_of(const StepFolder& found) {
  if (!found.complete) {
    return found.path.extension() == ".tmp" ? "not finished" : "incomplete: no index.json";
  }
  const CheckpointIndex index = read_index(found.path);
  for (const StoredFile& file : index.files) {
    const fs::path path = found.path / file.name;
    const std::string name = written_plain(file.name);
    const fs::file_status status = fs::status(path);
    if (!fs::exists(status)) return fmt::format("damaged: {} is missing", name);
    if (!fs::is_regular_file(status)) return fmt::format("damaged: {} is not a regular file", name);
    const auto there = static_cast<i64>(fs::file_size(path));
    if (there == file.bytes) continue;
    return fmt::format("damaged: {} has {} of {} bytes", name, there, file.bytes);
  }
  return fmt::format("complete, {} tensors in {} files", index.tensors.size(), index.files.size());
}

// One column after the other; where one cannot be known, the reason ends the row.
std::string row_of(const StepFolder& found) {
  std::string date = "?", size = "?", state;
  try {
    date = date_of(found.complete ? found.path / kIndexName : found.path);
    size = size_text(static_cast<double>(bytes_in(found.path)));
    state = state_of(found);
  } catch (const fs::filesystem_error& error) {
    state = path_error(error);
  } catch (const std::exception& error) {
    state = error.what();
  }
  std::error_code error;
  if (!fs::exists(found.path, error) && !error) state = "was removed meanwhile";
  return fmt::format("{:>10}  {:<19}  {:>10}  {}", found.step, date, size, state);
}

// Folders of steps in what the user named, complete or not.
std::vector<StepFolder> steps_in(const fs::path& named) {
  std::error_code error;
  const bool absent = fs::status(named, error).type() == fs::file_type::not_found;
  if (!fs::is_directory(named, error)) {
    fail_config("there is no folder {}{}",
                written_path(named),
                error && !absent ? ": " + error.message() : "");
  }
  std::vector<StepFolder> found = step_folders(named);
  if (found.empty()) found = step_folders(named / "checkpoints");
  if (found.empty()) {  // a step itself
    found = step_folders(fs::canonical(named).parent_path());
    std::erase_if(found,
                  [&](const StepFolder& of) { return !fs::equivalent(of.path, named, error); });
  }
  if (found.empty() && fs::exists(named / kIndexName)) {  // under another name
    found.push_back({read_index(named).info.step, named, true});
  }
  return found;
}

void list(const fs::path& named) {
  const std::vector<StepFolder> steps = steps_in(named);
  if (steps.empty()) fail_config("{} holds no checkpoints", named.string());
  show("{:>10}  {:<19}  {:>10}  {}\n", "step", "saved", "size", "state");
  for (const StepFolder& found : steps) show("{}\n", row_of(found));
}

// False: it is damaged. One that a run removed while it was read is none any more.
bool verify(const fs::path& folder) {
  try {
    const CheckpointIndex index = verify_checkpoint(folder);
    show("{}: step {}, {} tensors, {}: good\n",
         folder.string(),
         index.info.step,
         index.tensors.size(),
         size_text(static_cast<double>(index.total_bytes())));
    return true;
  } catch (const Error& error) {
    std::error_code unknown;
    if (!fs::exists(folder / kIndexName, unknown) && !unknown) {
      show("{}: was removed meanwhile\n", written_path(folder));
      return true;
    }
    show_error("{}\n", error.what());
    return false;
  }
}

bool verify_all(const fs::path& named) {
  const std::vector<fs::path> found = find_checkpoints(named);
  bool good = !warn_of_incomplete(named, found.front());  // what lost its index is not good
  for (const fs::path& folder : found) good = verify(folder) && good;
  return good;
}

}  // namespace

int run_checkpoint(const CheckpointOptions& options) {
  if (options.action == CheckpointOptions::list) {
    list(options.folder);
    return 0;
  }
  return verify_all(options.folder) ? 0 : 1;
}

}  // namespace tessera
