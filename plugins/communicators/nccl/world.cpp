#include "world.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>

#include "settings.hpp"
#include "tessera/log.hpp"

namespace tessera::nccl {

using namespace std::chrono_literals;

namespace {

constexpr auto kToEnd = 10s;  // at the end of a run
constexpr const char* kInit = "ncclCommInitRankConfig";

// Collectives of several communicators on streams of their own: from 2.26 on NCCL then keeps on the
// GPU the order in which the host launched them, which LaunchOrder finds to be one on all ranks of
// a lane. The user's setting counts.
void keep_launch_order() {
  static const int kSet = setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  (void)kSet;
}

std::string hex(const UniqueId& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

UniqueId id_of(const std::string& hex) {
  UniqueId id{};
  require(hex.size() == 2 * sizeof id.bytes, "an id of NCCL has {} digits", hex.size());
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

}  // namespace

int Links::state() {
  const std::lock_guard lock(mutex_);
  if (aborted_) return kSuccess;
  int state = kSuccess;
  const int result = library_.async_error(comm_, &state);
  return result == kSuccess ? state : result;
}

std::string Links::last_error() {
  const std::lock_guard lock(mutex_);
  const char* text = aborted_ ? nullptr : library_.last_error(comm_);
  return text == nullptr ? "" : text;
}

Links::Inside::Inside(Links& links, Watchdog& watchdog) : links_(links) {
  std::unique_lock lock(links_.mutex_);
  if (links_.aborted_) {
    lock.unlock();
    watchdog.check();
    fail("NCCL's communicator is aborted");
  }
  ++links_.inside_;
}

Links::Inside::~Inside() {
  {
    const std::lock_guard lock(links_.mutex_);
    --links_.inside_;
  }
  links_.left_.notify_all();
}

// An abort frees the communicator: a call that is just under way ends first. One that is blocked,
// for a launch, is on a thread of NCCL's from 2.26 on, which the abort joins.
void Links::abort() noexcept {
  {
    std::unique_lock lock(mutex_);
    if (std::exchange(aborted_, true)) return;
    left_.wait_for(lock, 1s, [&] { return inside_ == 0; });
  }
  library_.abort(comm_);
}

void Links::finish(Clock::time_point end) noexcept {
  library_.finalize(comm_);
  while (state() == kInProgress && Clock::now() < end) std::this_thread::sleep_for(1ms);
  if (state() != kSuccess) return abort();
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  library_.destroy(comm_);
}

World::World(const CommunicatorArguments& arguments)
    : library_(open_nccl()), arguments_(arguments) {
  check_settings();
  keep_launch_order();
  if (arguments_.share > 1) let_ranks_share(arguments_.number(arguments_.rank));
  watchdog_ = std::make_unique<Watchdog>(
      arguments_,
      Watchdog::Ends{.ask = [this] { return ask(); }, .abort = [this] { abort_all(); }});
  agree_on_version();
  watchdog_->start();
}

World::~World() {
  watchdog_->stop();
  if (watchdog_->failed()) return;
  // A peer that has stopped may keep NCCL from ending: then it is left to the end of the process.
  auto ended = std::make_shared<std::promise<void>>();
  std::future<void> end = ended->get_future();
  std::thread thread([all = all_, ended] {
    for (auto each = all.rbegin(); each != all.rend(); ++each)
      (*each)->finish(Clock::now() + kToEnd);
    ended->set_value();
  });
  if (end.wait_for(2 * kToEnd) == std::future_status::ready) {
    thread.join();
    return;
  }
  log_warning("NCCL has not ended its communicators: a peer has stopped, or its GPU works on");
  thread.detach();
}

void World::agree_on_version() {
  int own = 0;
  library_.version(&own);
  if (arguments_.rank == 0) return arguments_.store->set(key("version"), std::to_string(own));
  const std::string first = arguments_.store->get(key("version"), arguments_.init_timeout);
  if (first == std::to_string(own)) return;
  fail_config("rank {} has NCCL {}, and rank {} has {}: install one version on all hosts",
              arguments_.number(0),
              version_text(std::stoi(first)),
              arguments_.number(arguments_.rank),
              version_text(own));
}

std::shared_ptr<Links> World::made_links_of(const GroupSpec& spec) {
  std::shared_ptr<Links>& links = by_members_[{spec.members, spec.lane}];
  if (links != nullptr) return links;
  const std::string id_key = key(
      fmt::format("id of {} on lane {}", fmt::join(spec.members, ","), comm_lane_name(spec.lane)));
  UniqueId id{};
  if (spec.index == 0) {
    check(library_.unique_id(&id), "ncclGetUniqueId");
    arguments_.store->set(id_key, hex(id));
  } else {
    id = id_of(arguments_.store->get(id_key, arguments_.init_timeout));
  }
  Comm* comm = nullptr;
  Config config;
  check(library_.init(&comm, spec.size(), id, spec.index, &config), kInit);
  auto made = std::make_shared<Links>(library_, comm);
  {
    const std::lock_guard lock(mutex_);
    all_.push_back(made);
  }
  if (watchdog_->failed()) made->abort();  // it came too late for that of all
  settle(*made, kInit, arguments_.init_timeout);
  return links = std::move(made);
}

// Errors of creating a group name it.
std::shared_ptr<Links> World::links_of(const GroupSpec& spec) {
  try {
    return made_links_of(spec);
  } catch (Error& error) {
    error.add(ErrorFrame::Kind::note, fmt::format("group {}", spec.name));
    throw;
  }
}

void World::settle(Links& links, const char* call, std::chrono::milliseconds most) {
  Clock::time_point end = Clock::now() + most;
  StoodStill stood_still;
  for (int asked = 0;; ++asked) {
    end += stood_still.look();
    watchdog_->check();
    const int state = links.state();
    if (state == kSuccess) return watchdog_->check();
    if (state != kInProgress) throw error_of(state, call, &links);
    if (Clock::now() >= end) {
      throw Error(
          fmt::format("{} is not over after {:.1f} s: not all ranks have called it, or they "
                      "cannot reach each other (NCCL_SOCKET_IFNAME names the interface)",
                      call,
                      std::chrono::duration<double>(most).count()),
          ErrorKind::peer_silent);
    }
    if (asked > 100) std::this_thread::sleep_for(100us);
  }
}

void World::check(int result, const char* call, Links* links) {
  if (result == kSuccess || result == kInProgress) return;
  watchdog_->check();  // an abort ends calls, too
  throw error_of(result, call, links);
}

Error World::error_of(int result, const char* call, Links* links) const {
  const std::string last = links == nullptr ? "" : links->last_error();
  return Error(fmt::format("{}: {} ({}){}",
                           call,
                           library_.error_text(result),
                           result,
                           last.empty() ? "" : ": " + last),
               result == kRemoteError ? ErrorKind::peer_failed : ErrorKind::own);
}

std::optional<Error> World::ask() {
  std::vector<std::shared_ptr<Links>> all;
  {
    const std::lock_guard lock(mutex_);
    all = all_;
  }
  for (const auto& links : all) {
    const int state = links->state();
    if (state == kSuccess || state == kInProgress) continue;
    return error_of(state, "NCCL", links.get());
  }
  return {};
}

// At once: an abort waits for what its communicator has launched, which may wait on the GPU for
// another one's.
void World::abort_all() noexcept {
  std::vector<std::shared_ptr<Links>> all;
  {
    const std::lock_guard lock(mutex_);
    all = all_;
  }
  std::vector<std::thread> threads;
  for (const auto& links : all) {
    try {
      threads.emplace_back([links] { links->abort(); });
    } catch (const std::system_error&) {  // the system has no more of them
      links->abort();
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::nccl
