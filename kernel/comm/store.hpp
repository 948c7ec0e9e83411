#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Keys and values, and who died: what every store keeps. Thread-safe.
class StoreTable {
 public:
  void set(std::string_view key, std::string_view value);
  i64 add(std::string_view key, i64 amount);
  /// Waits for the key. Throws Error when it does not come in time, or when a rank died meanwhile.
  std::string get(std::string_view key, std::chrono::milliseconds timeout);
  std::optional<std::string> find(std::string_view key) const;
  /// From now on a wait for a key that is not there ends with "rank N died: why".
  void report_death(i64 rank, std::string_view why);
  /// "rank N died: why", of the first; empty while all live.
  std::string first_death() const;
  /// Why a wait for `key` ends without it.
  Error missing(std::string_view key, std::chrono::milliseconds waited) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
  i64 dead_ = Error::kNoRank;  // the first rank that died
  std::string death_;          // first_death()
};

/// Keys of a store that some of the ranks use among themselves: they begin with `prefix`.
class StoreSection : public Store {
 public:
  StoreSection(Store& whole, std::string prefix) : whole_(whole), prefix_(std::move(prefix)) {}
  Store& whole() const { return whole_; }
  void set(std::string_view key, std::string_view value) override { whole_.set(path(key), value); }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return whole_.get(path(key), timeout);
  }
  i64 add(std::string_view key, i64 amount) override { return whole_.add(path(key), amount); }

 private:
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  Store& whole_;
  std::string prefix_;
};

/// The rendezvous of ranks that are threads of one process. It also holds C++ objects that they
/// share, so that nothing of a world is global.
class InProcessStore : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { table_.set(key, value); }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return table_.get(key, timeout);
  }
  i64 add(std::string_view key, i64 amount) override { return table_.add(key, amount); }

  /// The object under this key, made by the first call that asks. Always ask for it as the same T.
  template <class T>
  std::shared_ptr<T> object(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& held = objects_[key];
    if (held == nullptr) held = std::make_shared<T>();
    return std::static_pointer_cast<T>(held);
  }

 private:
  StoreTable table_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<void>> objects_;
};

}  // namespace tessera
