#pragma once
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Takes items with `next(item)` until that is false, one thread at a time, and hands each with its
/// number to a worker; make_worker() makes one for every thread. Returns the number of items. Of
/// several errors the one of the first item is thrown: items after it may have been done, all
/// before it were.
template <class Item, class Next, class MakeWorker>
i64 in_threads(int threads, Next&& next, MakeWorker&& make_worker) {
  std::mutex mutex;
  i64 items = 0, failed_item = std::numeric_limits<i64>::max();
  std::exception_ptr error;
  const auto fail_at = [&](i64 item) {  // with the mutex held
    if (item >= failed_item) return;
    failed_item = item;
    error = std::current_exception();
  };
  const auto work = [&] {
    i64 item_number = 0;
    try {
      auto worker = make_worker();
      Item item;
      for (;;) {
        {
          const std::lock_guard lock(mutex);
          if (error) return;
          item_number = items;
          if (!next(item)) return;
          ++items;
        }
        worker(item_number, item);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      fail_at(item_number);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
  return items;
}

}  // namespace tessera
