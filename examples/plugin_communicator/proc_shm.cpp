// Ranks of one host that map each other's memory by way of /proc/<pid>/fd.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>
#include <tessera/device/direct_comm.hpp>
#include <tessera/error.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

// One rank's memory as this process sees it.
struct Segment {
  std::byte* base = nullptr;
  i64 bytes = 0;
  int process = -1;  // a pidfd, readable when the process has ended
};

void* map_file(int fd, i64 bytes) {
  void* base = mmap(nullptr,
                    static_cast<std::size_t>(bytes),
                    PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE,
                    fd,
                    0);
  require(base != MAP_FAILED, "proc_shm: cannot map {} bytes: {}", bytes, SystemError());
  return base;
}

class SegmentMemory final : public DirectMemory {
 public:
  SegmentMemory(const CommunicatorArguments& arguments, i64 bytes)
      : arguments_(arguments), segments_(static_cast<std::size_t>(arguments.world)) {
    file_ = memfd_create("proc_shm", MFD_CLOEXEC);
    require(file_ >= 0 && ftruncate(file_, bytes) == 0,
            "proc_shm: cannot make a segment of {} bytes: {}",
            bytes,
            SystemError());
    own() = {static_cast<std::byte*>(map_file(file_, bytes)), bytes, -1};
    meet();
  }
  ~SegmentMemory() override {
    for (const Segment& segment : segments_) {
      if (segment.base != nullptr) munmap(segment.base, static_cast<std::size_t>(segment.bytes));
      if (segment.process >= 0) close(segment.process);
    }
    close(file_);
  }

  // Pieces come back in the sizes in which they were taken, so a list by size serves.
  void* reserve(i64 bytes) override {
    const i64 size = (bytes + 4095) / 4096 * 4096;
    if (const auto found = free_.find(size); found != free_.end()) {
      void* address = found->second;
      free_.erase(found);
      return std::memset(address, 0, static_cast<std::size_t>(size));
    }
    if (size > own().bytes - used_) return nullptr;
    used_ += size;
    return own().base + used_ - size;
  }
  void release(void* address, i64 bytes) override {
    free_.emplace((bytes + 4095) / 4096 * 4096, address);
  }

  // A token is an offset in the segment of its owner.
  u64 token(const void* address, i64 bytes) const override {
    const auto* begin = static_cast<const std::byte*>(address);
    const Segment& segment = at(arguments_.rank);
    const bool inside = begin >= segment.base && begin + bytes <= segment.base + segment.bytes;
    return inside ? static_cast<u64>(begin - segment.base) : kPrivate;
  }
  void* at(i64 rank, u64 token, i64 bytes) const override {
    const Segment& segment = at(rank);
    const auto size = static_cast<u64>(segment.bytes);
    require(token <= size && static_cast<u64>(bytes) <= size - token,
            "proc_shm: rank {} named memory outside of its segment",
            arguments_.number(rank));
    return segment.base + token;
  }

  std::string death(i64 rank) override {
    pollfd watched{at(rank).process, POLLIN, 0};
    return poll(&watched, 1, 0) > 0 ? "its process has ended" : "";
  }

 private:
  const Segment& at(i64 rank) const { return segments_[static_cast<std::size_t>(rank)]; }
  Segment& own() { return segments_[static_cast<std::size_t>(arguments_.rank)]; }

  // A store may join several communicators one after the other: each meeting has its number.
  void meet() {
    Store& store = *arguments_.store;
    const i64 meeting = store.add(fmt::format("proc_shm/meetings/{}", arguments_.rank), 1);
    const auto key = [&](i64 rank) { return fmt::format("proc_shm/{}/{}", meeting, rank); };
    store.set(key(arguments_.rank), fmt::format("{} {} {}", getpid(), file_, own().bytes));
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      if (rank == arguments_.rank) continue;
      std::istringstream words(store.get(key(rank), arguments_.init_timeout));
      i64 pid = 0, file = 0, bytes = 0;
      words >> pid >> file >> bytes;
      join(rank, pid, file, bytes);
    }
    // Nobody goes on, and perhaps ends, before all have mapped its memory.
    store.set(key(arguments_.rank) + "/done", "");
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      store.get(key(rank) + "/done", arguments_.init_timeout);
    }
  }

  void join(i64 rank, i64 pid, i64 file, i64 bytes) {
    Segment& peer = segments_[static_cast<std::size_t>(rank)];
    const std::string path = fmt::format("/proc/{}/fd/{}", pid, file);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    require(fd >= 0,
            "proc_shm: cannot open {} of rank {}: {}; ranks are of one host and one user",
            path,
            arguments_.number(rank),
            SystemError());
    peer.process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    peer.base = static_cast<std::byte*>(map_file(fd, bytes));
    peer.bytes = bytes;
    close(fd);
  }

  CommunicatorArguments arguments_;
  std::vector<Segment> segments_;  // by rank
  std::multimap<i64, void*> free_;
  i64 used_ = 0;
  int file_ = -1;
};

class ProcShm final : public Communicator {
 public:
  struct Config {
    double segment_gib = 8;
    static void describe(Schema<Config>& s) {
      s.field("segment_gib", &Config::segment_gib, "room for a rank's tensors; only use counts")
          .above(0)
          .at_most(4096);
    }
  };
  ProcShm(const Config& config, CommunicatorArguments& arguments)
      : memory_(std::make_shared<SegmentMemory>(
            arguments, static_cast<i64>(config.segment_gib * (1 << 18)) * 4096)),
        engine_("proc_shm", arguments, memory_) {}

  std::string_view do_name() const override { return "proc_shm"; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    return engine_.create_group(spec, device);
  }
  std::shared_ptr<MemorySource> do_memory() override { return memory_; }
  bool do_progress() override { return engine_.progress(); }
  void do_abort(std::string_view reason) noexcept override { engine_.abort(reason); }

 private:
  std::shared_ptr<SegmentMemory> memory_;
  DirectEngine engine_;
};

}  // namespace

TESSERA_PLUGIN(proc_shm, "0.1.0", "A communicator") {
  registrar.add<Communicator, ProcShm>("proc_shm", "ranks of one host, over mapped memory");
}
