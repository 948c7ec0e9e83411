#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "kernel/launch/environment.hpp"
#include "tessera/device/communicator.hpp"

namespace tessera {

/// While one lives, a rank that waits for others to start says so once, after some seconds: who is
/// missing, which variables say that they come, and how to start ranks here instead. Somebody who
/// is in a shell of `srun --pty`, say, would wait for minutes and not know why. Rank 0 says it, and
/// the first rank of each host where rank 0 cannot be found. Where our launcher started the ranks
/// nobody does: it watches them itself.
class AbsenceNotice {
 public:
  /// `limit`: after which the wait is given up, for the message.
  AbsenceNotice(const RankEnvironment& environment,
                std::chrono::milliseconds limit,
                std::chrono::milliseconds after = std::chrono::seconds(5));
  ~AbsenceNotice();
  AbsenceNotice(const AbsenceNotice&) = delete;
  AbsenceNotice& operator=(const AbsenceNotice&) = delete;

  /// From now on `store`, which outlives this, tells who is missing: ranks without a pulse.
  void joined(Store& store);

 private:
  void run();
  std::string text(const std::string& who) const;

  const RankEnvironment environment_;
  const std::chrono::milliseconds limit_, after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Store* store_ = nullptr;
  bool over_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tessera
