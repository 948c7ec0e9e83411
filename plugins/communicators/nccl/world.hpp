#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "library.hpp"
#include "tessera/device/communicator.hpp"
#include "watchdog.hpp"

namespace tessera::nccl {

/// One of NCCL's communicators: of the same members and lane on each of them.
class Links {
 public:
  Links(const Library& library, Comm* comm) : library_(library), comm_(comm) {}
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// While the rank's thread is inside calls of NCCL that take the communicator.
  class Inside {
   public:
    /// Where it is aborted, throws why.
    Inside(Links& links, Watchdog& watchdog);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    Comm* comm() const { return links_.comm_; }

   private:
    Links& links_;
  };
  /// What NCCL says of it now: kSuccess, kInProgress or an error. kSuccess once it is aborted.
  int state();
  /// NCCL's text of its last error; empty once it is aborted.
  std::string last_error();
  /// Ends what is under way, here; may hang. Once.
  void abort() noexcept;
  /// Ends it together with its peers, or here alone where that takes longer.
  void finish(Clock::time_point end) noexcept;
  /// Has a collective of these ranks been enqueued?
  bool used = false;

 private:
  const Library& library_;
  Comm* comm_;
  std::mutex mutex_;  // of what follows, and while the state is asked for
  std::condition_variable left_;
  bool aborted_ = false;
  int inside_ = 0;
};

/// What a rank has of NCCL: the library, its communicators, and their end.
class World {
 public:
  /// All ranks call it. Throws ConfigError where their versions of NCCL differ.
  explicit World(const CommunicatorArguments& arguments);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Library& library() const { return library_; }
  Watchdog& watchdog() { return *watchdog_; }
  const CommunicatorArguments& arguments() const { return arguments_; }
  /// The links of a group. Its members call it at once; the rank's device is made by then.
  std::shared_ptr<Links> links_of(const GroupSpec& spec);
  /// Waits until a call that goes on in NCCL is over; throws its error, the failure that ended
  /// communication, or at the deadline an error of what has not happened.
  void settle(Links& links, const char* call, std::chrono::milliseconds most);
  /// Throws unless a call has ended well or goes on.
  void check(int result, const char* call, Links* links = nullptr);

 private:
  std::shared_ptr<Links> made_links_of(const GroupSpec& spec);
  void agree_on_version();
  Error error_of(int result, const char* call, Links* links) const;
  std::optional<Error> ask();
  void abort_all() noexcept;
  std::string key(const std::string& name) const { return watchdog_->prefix() + "/" + name; }

  const Library& library_;
  const CommunicatorArguments arguments_;
  std::mutex mutex_;  // of `all_`
  std::vector<std::shared_ptr<Links>> all_;
  std::map<std::pair<std::vector<i64>, CommLane>, std::shared_ptr<Links>> by_members_;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace tessera::nccl
