#include <tessera/device/direct_comm.hpp>
#include <tessera/error.hpp>
#include <tessera/plugin.hpp>

#include "peers.hpp"
#include "segment.hpp"

namespace tessera::shm {

namespace {

// This rank's segment and those of the peers. A token is an offset in its owner's segment.
class SegmentMemory : public DirectMemory {
 public:
  SegmentMemory(const CommunicatorArguments& arguments, i64 bytes)
      : arguments_(arguments), own_(bytes), peers_(meet_peers(arguments, own_)) {}

  void* reserve(i64 bytes) override { return own_.reserve(bytes); }
  void release(void* address, i64 bytes) override { own_.release(address, bytes); }
  std::string limit() const override {
    return fmt::format("of this rank's segment of {} bytes (comm.segment_gib)",
                       own_.mapping().bytes());
  }

  u64 token(const void* address, i64 bytes) const override {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const auto base = reinterpret_cast<std::uintptr_t>(own_.mapping().base());
    const bool inside = begin >= base && begin + static_cast<u64>(bytes) <=
                                             base + static_cast<u64>(own_.mapping().bytes());
    return inside ? begin - base : kPrivate;
  }

  void* at(i64 rank, u64 token, i64 bytes) const override {
    const Mapping& segment =
        rank == arguments_.rank ? own_.mapping() : peers_[static_cast<std::size_t>(rank)].segment;
    const u64 size = static_cast<u64>(segment.bytes());
    require(token <= size && static_cast<u64>(bytes) <= size - token,
            "shm: rank {} named memory outside of its segment",
            arguments_.number(rank));
    return segment.base() + token;
  }

  std::string death(i64 rank) override { return death_of(peers_[static_cast<std::size_t>(rank)]); }

 private:
  CommunicatorArguments arguments_;
  Segment own_;
  std::vector<Peer> peers_;
};

class ShmCommunicator : public Communicator {
 public:
  static constexpr std::string_view kMemoryKind = kHostMemory;
  static constexpr CommunicatorReach kReach = CommunicatorReach::one_host;
  struct Config {
    Auto<double> segment_gib;
    static void describe(Schema<Config>& s) {
      s.field("segment_gib",
              &Config::segment_gib,
              "size of each rank's segment, which holds all its tensors; only used pages count, "
              "\"auto\" is the machine's memory")
          .at_least(0.001)  // at least one unit is taken
          .at_most(65536);
    }
  };

  ShmCommunicator(const Config& config, CommunicatorArguments& arguments)
      : memory_(std::make_shared<SegmentMemory>(arguments, bytes_of(config, arguments))),
        engine_("shm", arguments, memory_) {}

  std::string_view do_name() const override { return "shm"; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    return engine_.create_group(spec, device);
  }
  std::shared_ptr<MemorySource> do_memory() override { return memory_; }
  bool do_progress() override { return engine_.progress(); }
  void do_abort(std::string_view reason) noexcept override { engine_.abort(reason); }

 private:
  static i64 bytes_of(const Config& config, const CommunicatorArguments& arguments) {
    if (!config.segment_gib) return default_segment_bytes(arguments.world);
    constexpr i64 kUnit = 2 << 20;
    const i64 units = static_cast<i64>(*config.segment_gib * (1 << 30)) / kUnit;
    return std::max(units, i64{1}) * kUnit;
  }

  std::shared_ptr<SegmentMemory> memory_;
  DirectEngine engine_;
};

}  // namespace

}  // namespace tessera::shm

TESSERA_PLUGIN(shm, "0.1.0", "communicator of ranks on one host, over shared memory") {
  registrar.add<tessera::Communicator, tessera::shm::ShmCommunicator>(
      "shm", "processes of one host; peers read and write each other's tensors in place");
}
