#include "kernel/launch/absence_notice.hpp"

#include <exception>
#include <vector>

#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/comm/control_plane/rank_list.hpp"
#include "tessera/log.hpp"

namespace tessera {

using namespace std::chrono_literals;

AbsenceNotice::AbsenceNotice(const RankEnvironment& environment,
                             std::chrono::milliseconds limit,
                             std::chrono::milliseconds after)
    : environment_(environment), limit_(limit), after_(after) {
  const bool first = environment.rank == 0 || environment.local_rank == 0;
  if (!environment.own && first) thread_ = std::thread([this] { run(); });
}

AbsenceNotice::~AbsenceNotice() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AbsenceNotice::joined(Store& store) {
  const std::lock_guard lock(mutex_);
  store_ = &store;
}

void AbsenceNotice::run() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, after_, [this] { return over_; })) return;
  if (store_ == nullptr) return log_info("{}", text("rank 0"));
  if (environment_.rank != 0) return;  // rank 0 says it
  Store& store = *store_;
  lock.unlock();
  std::vector<i64> absent;
  try {
    for (i64 rank = 0; rank < environment_.world; ++rank) {
      if (!has_pulse(store, rank)) absent.push_back(rank);
    }
  } catch (const std::exception&) {  // the store is gone, which ends the run
    return;
  }
  if (!absent.empty()) log_info("{}", text(rank_list(absent)));
}

std::string AbsenceNotice::text(const std::string& who) const {
  const RankEnvironment& e = environment_;
  return fmt::format(
      "waiting for {} of {} to start, for up to {:.0f} s (comm.init_timeout_s): {} say that {} "
      "starts them. To start the ranks here instead: {} tessera train ...",
      who,
      e.world,
      std::chrono::duration<double>(limit_).count(),
      e.variables,
      e.starter,
      e.without_starter);
}

}  // namespace tessera
