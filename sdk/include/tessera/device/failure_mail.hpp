#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Which rank's failure ended communication, and its reason.
struct RankFailure {
  i64 rank = Error::kNoRank;  ///< its number in the run; kNoRank: none of them, such as the store
  std::string reason;
  /// As rank `own` throws it: of kind `own` where that is the rank which failed.
  TESSERA_API Error error(i64 own) const;
};

/// How the ranks of a communicator tell each other through the store that one of them fails, where
/// no data may arrive any more. Functions may be called on any thread.
class TESSERA_API FailureMail {
 public:
  /// `name` is the communicator's; all ranks make theirs, and the n-th of a name are one another's.
  /// `heard` is called at most once, on a thread of the mail's: with what a rank told, with a rank
  /// whose connection to the store closed, or with what is wrong with the store. Throws what the
  /// store throws.
  FailureMail(const CommunicatorArguments& arguments,
              std::string_view name,
              std::function<void(const RankFailure&)> heard);
  /// Ends the thread. Not to be called by `heard`.
  ~FailureMail();
  FailureMail(const FailureMail&) = delete;
  FailureMail& operator=(const FailureMail&) = delete;

  /// Begins to listen; once. Throws std::system_error where the system has no more threads.
  void start();
  /// Tells all other ranks. May wait for the store.
  void tell(const RankFailure& failure) noexcept;
  /// Ends this rank's calls of a store that is out of reach.
  void hang_up() noexcept;
  /// A prefix for keys of these ranks' communicators in the store: "gloo/1".
  const std::string& prefix() const { return prefix_; }

 private:
  void listen();
  std::string key(i64 rank) const;

  CommunicatorArguments arguments_;
  std::string prefix_;
  std::function<void(const RankFailure&)> heard_;
  std::thread listener_;
};

}  // namespace tessera
