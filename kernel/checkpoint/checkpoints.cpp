#include "kernel/checkpoint/checkpoints.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/folder_fitness.hpp"
#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// No path holds a zero byte.
std::string pack(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) text += path.string() + '\0';
  return text;
}

std::vector<fs::path> unpack(const std::string& text) {
  std::vector<fs::path> paths;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    paths.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

}  // namespace

Checkpoints::Checkpoints(const CheckpointArguments& arguments)
    : arguments_(arguments),
      plane_(
          arguments.store, arguments.mesh->rank(), arguments.mesh->world_size(), arguments.limits) {
}

void Checkpoints::claim() {
  plane_.root("claim", [this] {
    take_folder();
    remove_stale(arguments_.folder, arguments_.run);  // perhaps nothing is left to be saved
    return std::string();
  });
  require_common(arguments_.folder, arguments_.run, plane_, arguments_.mesh->rank() == 0);
  claimed_ = true;
}

// On rank 0: makes the folder and locks it, again where somebody has removed it: the run's work is
// worth more.
void Checkpoints::take_folder() {
  if (lock_ != nullptr && lock_->holds()) return;
  if (lock_ != nullptr) {
    log_warning(
        "{} was removed, emptied or replaced while the run goes on: it is made again where it is "
        "not there, and holds this run's checkpoints from now on",
        arguments_.folder.string());
  }
  lock_ = std::make_unique<FolderLock>(arguments_.folder, ".lock", "checkpoint.out");
}

void Checkpoints::require_room(const std::vector<CheckpointTensor>& tensors, i64 saves) const {
  const RankPart part(*arguments_.mesh, tensors);
  i64 bytes = 0;
  for (const std::string& of_rank :
       plane_.all("bytes", [&] { return std::to_string(part.bytes()); })) {
    bytes += std::stoll(of_rank);
  }
  plane_.root("room", [&] {
    tessera::require_room(arguments_.folder, {bytes, saves, arguments_.keep});
    return std::string();
  });
}

fs::path Checkpoints::save(const CheckpointInfo& info,
                           const std::vector<CheckpointTensor>& tensors,
                           const std::function<void()>& before_commit) {
  require(!background_.under_way(), "a checkpoint is still being saved");
  const RankPart part(*arguments_.mesh, tensors);
  const RankPart::Values values = values_on(*arguments_.device);
  save(info, {part, values, plane_, arguments_.threads}, before_commit);
  return step_folder(arguments_.folder, info.step);
}

void Checkpoints::save(const CheckpointInfo& info,
                       const Writing& writing,
                       const std::function<void()>& before_commit) {
  const CheckpointArguments& a = arguments_;
  const bool root = a.mesh->rank() == 0;
  try {
    if (!claimed_) claim();
    write(info, writing, before_commit);
  } catch (const Error&) {
    if (root) {
      std::error_code ignored;
      fs::remove_all(temporary_folder(a.folder, info.step, a.run), ignored);
    }
    rethrow_with(ErrorFrame::Kind::note,
                 fmt::format("saving step {} failed, older checkpoints are whole", info.step));
  }
}

void Checkpoints::write(const CheckpointInfo& info,
                        const Writing& writing,
                        const std::function<void()>& before_commit) {
  const CheckpointArguments& a = arguments_;
  const fs::path temporary = temporary_folder(a.folder, info.step, a.run);
  writing.plane.root("prepare", [&] {
    take_folder();
    remove_stale(a.folder, a.run);
    fs::create_directory(temporary);
    return std::string();
  });
  const std::vector<std::string> proofs = writing.plane.all(
      "write", [&] { return writing.part.write(temporary, writing.values, writing.threads); });
  const auto turn = [&] {
    if (before_commit) before_commit();
    return std::string();
  };
  writing.plane.root("turn", turn, ControlPlane::Wait::for_a_step);
  writing.plane.root("commit", [&] {
    commit_parts(info, proofs, temporary, step_folder(a.folder, info.step));
    return std::string();
  });
  if (a.keep == 0) return;
  // Ranks wait here, or a slow removal looks like a collective that hangs.
  const auto remove = [&] {
    try {  // the checkpoint is there, so no error here fails the run
      remove_old(a.folder, info.step, a.keep, a.run);
    } catch (const std::exception& error) {
      log_warning("removing old checkpoints: {}", error.what());
    }
    return std::string();
  };
  writing.plane.root("remove", remove, ControlPlane::Wait::for_a_step);
}

void Checkpoints::save_later(const CheckpointInfo& info,
                             const std::vector<CheckpointTensor>& tensors,
                             std::function<void()> before_commit) {
  require(!background_.under_way(), "a checkpoint is still being saved");
  if (!claimed_) claim();
  later_begun_ = std::chrono::steady_clock::now();
  if (part_ == nullptr) {
    part_ = std::make_unique<RankPart>(*arguments_.mesh, tensors);
    snapshot_ = arguments_.device->host_block(part_->bytes());
  }
  part_->copy(*arguments_.device, snapshot_);
  later_ = Saved{info.step, step_folder(arguments_.folder, info.step), 0};
  before_commit_ = std::move(before_commit);
  turn_ = Turn::none;
  background_.start([this, info](const std::stop_token& stop) { write_later(info, stop); });
}

// One thread: training has the processors.
void Checkpoints::write_later(const CheckpointInfo& info, const std::stop_token& stop) {
  constexpr auto kPause = std::chrono::seconds(1);
  const ControlPlane plane = plane_.in_background(stop);
  const RankPart::Values inner = part_->values_in(snapshot_);
  const RankPart::Values values = [&](const CheckpointTensor& tensor, HostBytes& memory) {
    require(!stop.stop_requested(), "the run ends before it is saved");
    return inner(tensor, memory);
  };
  for (i64 failed = 0;; plane.pause(kPause)) {
    try {
      save(info, {*part_, values, plane, 1}, [&] { ask_before_commit(plane); });
      return;
    } catch (const SharedError& error) {
      const bool root = arguments_.mesh->rank() == 0;
      if (stop.stop_requested()) {  // nobody waits for its error
        if (root) log(LogLevel::error, error.what());
        throw;
      }
      if (++failed > arguments_.failures) throw;
      if (!root) continue;
      log(LogLevel::error,
          fmt::format("{}; trying again in a moment, {} of checkpoint.failures = {}",
                      error.what(),
                      failed,
                      arguments_.failures));
    }
  }
}

// Runs on the background thread; the rank's thread makes the call.
void Checkpoints::ask_before_commit(const ControlPlane& plane) {
  if (!before_commit_) return;
  turn_ = Turn::asked;
  while (turn_ != Turn::answered) plane.pause(std::chrono::milliseconds(2));
  turn_ = Turn::none;
  if (before_commit_error_) std::rethrow_exception(std::exchange(before_commit_error_, nullptr));
}

void Checkpoints::answer_before_commit() {
  if (turn_ != Turn::asked) return;
  try {
    before_commit_();
  } catch (...) {
    before_commit_error_ = std::current_exception();
  }
  turn_ = Turn::answered;
}

std::optional<Checkpoints::Saved> Checkpoints::saved_later(bool wait) {
  if (!background_.under_way()) return std::nullopt;
  answer_before_commit();
  while (wait && !background_.ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    answer_before_commit();
  }
  if (!background_.ended()) return std::nullopt;
  background_.wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - later_begun_;
  later_->seconds = took.count();
  return std::exchange(later_, std::nullopt);
}

std::vector<fs::path> Checkpoints::find(const std::string& resume) const {
  return unpack(plane_.root("find", [&] {
    if (resume != "auto") return pack({newest_checkpoint(resume)});  // what was asked for
    warn_of_incomplete(arguments_.folder);
    return pack(complete_steps(arguments_.folder));
  }));
}

std::optional<Checkpoints::Loaded> Checkpoints::load(const std::string& resume,
                                                     const std::vector<CheckpointTensor>& tensors,
                                                     const std::vector<std::string>& others,
                                                     const Judge& judge) {
  if (resume == "none") return std::nullopt;
  require(!background_.under_way(), "a checkpoint is still being saved");
  const std::vector<fs::path> candidates = find(resume);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      return load_from(candidates[i], tensors, others, judge);
    } catch (const SharedError& error) {
      const bool misfit = error.kind() == ErrorKind::configuration;  // older ones would not fit
      if (misfit || i + 1 == candidates.size()) throw;
      if (arguments_.mesh->rank() == 0) {
        log_warning("{}\nfalling back to {}", error.what(), candidates[i + 1].string());
      }
    }
  }
  return std::nullopt;
}

std::optional<fs::path> Checkpoints::give_up(const fs::path& bad) {
  const std::string before = plane_.root("give up", [&] {
    const std::vector<fs::path> steps = complete_steps(arguments_.folder);
    auto at =
        std::ranges::find_if(steps, [&](const auto& path) { return fs::equivalent(path, bad); });
    if (at == steps.end() || at + 1 == steps.end()) return std::string();
    give_up_step(*at);
    return (at + 1)->string();
  });
  return before.empty() ? std::nullopt : std::optional<fs::path>(before);
}

Checkpoints::Loaded Checkpoints::load_from(const fs::path& folder,
                                           const std::vector<CheckpointTensor>& tensors,
                                           const std::vector<std::string>& others,
                                           const Judge& judge) const {
  CheckpointIndex index;
  plane_.all("fit", [&] {
    index = read_index(folder);
    if (judge) judge({index.info, folder});
    require_fit(folder, index, tensors, &others);
    return std::string();
  });
  read(folder, index, tensors);
  return {index.info, folder};
}

void Checkpoints::read(const fs::path& folder,
                       const CheckpointIndex& index,
                       const std::vector<CheckpointTensor>& tensors) const {
  plane_.all("read", [&] {
    read_tensors(folder, index, tensors, into_tensors(*arguments_.device));
    return std::string();
  });
}

InitialParameters Checkpoints::initialize(const std::string& named,
                                          const std::vector<CheckpointTensor>& parameters,
                                          const std::vector<std::string>& names,
                                          const std::vector<std::string>& skip) {
  InitialParameters initial;
  const fs::path folder = find(named).front();
  CheckpointIndex index;
  std::vector<CheckpointTensor> wanted;
  plane_.all("fit", [&] {
    index = read_index(folder);
    initial = match_initial(folder, index, names, skip);
    for (const CheckpointTensor& tensor : parameters) {
      if (std::ranges::binary_search(initial.taken, tensor.name)) wanted.push_back(tensor);
    }
    try {
      require_fit(folder, index, wanted, nullptr);
    } catch (const ConfigError& error) {
      fail_config(
          "{}\n  checkpoint.init_skip = [\"NAME\"] leaves a parameter at its initial values; * "
          "stands for any text",
          error.what());
    }
    return std::string();
  });
  read(folder, index, wanted);
  return initial;
}

}  // namespace tessera
