-- SPDX-License-Identifier: BSD-2-Clause
-- What lies under the BTH: IP headers and UDP, in the frame, or in a reassembled datagram

local ipv4_headers, ipv6_headers, udp_headers = Field.new("ip"), Field.new("ipv6"), Field.new("udp")
local fragment_headers, erspan_truncated = Field.new("ipv6.fraghdr"), Field.new("erspan.truncated")

local tunnel_headers = {}
for _, name in ipairs(TUNNELS) do
  local known, field = pcall(Field.new, name)
  if known then tunnel_headers[#tunnel_headers + 1] = field end
end

-- Tvbs cannot be compared; these are the frame and what Wireshark reassembled.
local function same_bytes(one, other)
  local length = one:captured_len()
  if length ~= other:captured_len() then return false end
  local head = math.min(length, 64)
  return one:range(0, head):raw() == other:range(0, head):raw()
end

-- Of these headers those in `frame` before `finish`.
local function headers_in(infos, frame, finish)
  local found = {}
  for _, info in ipairs(infos) do
    if info.source and info.offset < finish and same_bytes(info.source, frame) then found[#found + 1] = info end
  end
  return found
end

-- Where the packet that holds the UDP header begins: behind the last header of a tunnel.
local function inside_of_tunnels(frame, udp)
  local inside = 0
  for _, field in ipairs(tunnel_headers) do
    for _, info in ipairs(headers_in({ field() }, frame, udp)) do inside = math.max(inside, info.offset + 1) end
  end
  return inside
end

local function ip_header(info)
  local frame = info.source
  local ip = { at = info.offset, version = math.floor(frame:range(info.offset, 1):uint() / 16), frame = frame }
  if ip.version == 4 then
    ip.dscp = math.floor(frame:range(ip.at + 1, 1):uint() / 4)
    ip.length, ip.what = frame:range(ip.at + 2, 2):uint(), "IPv4"
  else
    ip.dscp = math.floor(frame:range(ip.at, 2):uint() / 64) % 64
    local length = frame:range(ip.at + 4, 2):uint()
    ip.length, ip.what = length > 0 and IPV6_LENGTH + length or 0, "IPv6"
  end
  return ip
end

local function all_ip_headers()
  local found = {}
  for _, info in ipairs({ ipv4_headers() }) do found[#found + 1] = info end
  for _, info in ipairs({ ipv6_headers() }) do found[#found + 1] = info end
  return found
end

local function ip_headers_before(frame, udp)
  local inside = inside_of_tunnels(frame, udp)
  local ips = {}
  for _, info in ipairs(headers_in(all_ip_headers(), frame, udp - IPV4_LENGTH + 1)) do
    if info.offset >= inside then ips[#ips + 1] = ip_header(info) end
  end
  table.sort(ips, function(one, other) return one.at < other.at end)
  return ips
end

-- The header that a datagram of `length` bytes had before it was cut into fragments; nil where that is not known.
local function header_before_fragmentation(ip, length)
  if ip.version == 4 then
    local header = ip.frame:range(ip.at, 4 * (ip.frame:range(ip.at, 1):uint() % 16)):raw()
    local whole = #header + length
    local flags = math.floor(header:byte(7) / 64) * 64
    return header:sub(1, 2) .. string.char(math.floor(whole / 256) % 256, whole % 256) .. header:sub(5, 6)
      .. string.char(flags, 0) .. header:sub(9)
  end
  for _, info in ipairs({ fragment_headers() }) do
    if info.offset == ip.at + IPV6_LENGTH and same_bytes(info.source, ip.frame) then
      local header = ip.frame:range(ip.at, IPV6_LENGTH):raw()
      local following = ip.frame:range(info.offset, 1):uint()
      return header:sub(1, 4) .. string.char(math.floor(length / 256) % 256, length % 256, following) .. header:sub(8)
    end
  end
  return nil
end

-- Of a reassembled datagram: the header of its last fragment, which is in the frame, and the one from before fragmentation.
local function place_of_fragments(place)
  local last
  for _, info in ipairs(all_ip_headers()) do
    if info.source and not same_bytes(info.source, place.frame) and (not last or info.offset > last.offset) then
      last = info
    end
  end
  if not last or place.udp ~= 0 then return nil end
  local ip = ip_header(last)
  place.header = header_before_fragmentation(ip, place.frame:reported_len())
  if not place.header then return nil end
  ip.length = 0
  place.ips = { ip }
  return place
end

-- Where the packet lies and where its headers say it ends; nil when it is not one that IP and UDP carry.
local function place_in_frame(tvb, pinfo)
  local bth = tvb:offset()
  local udp = bth - UDP_LENGTH
  local headers = { udp_headers() }
  local info = headers[#headers]
  local frame = info and info.source
  if not frame or udp < 0 or info.offset ~= udp or bth > frame:captured_len() then return nil end
  if frame:range(udp, 2):uint() ~= pinfo.src_port or frame:range(udp + 2, 2):uint() ~= pinfo.dst_port then
    return nil
  end
  local place = { frame = frame, bth = bth, udp = udp, ips = ip_headers_before(frame, udp) }
  place.finish = frame:reported_len()
  if #place.ips == 0 and not place_of_fragments(place) then return nil end
  local truncated = false
  for _, flag in ipairs({ erspan_truncated() }) do truncated = truncated or flag.value end
  local function ends_at(finish, what)
    if finish <= place.finish or truncated then
      place.finish = finish
    elseif not place.short then
      place.short = ("short_packet: %d bytes less than the %s length says"):format(finish - place.finish, what)
    end
  end
  for _, ip in ipairs(place.ips) do
    if ip.length > 0 then ends_at(ip.at + ip.length, ip.what) end
  end
  place.ip_finish = place.finish
  place.udp_length = frame:range(udp + 4, 2):uint()
  if place.udp_length >= UDP_LENGTH then ends_at(udp + place.udp_length, "UDP") end
  return place
end

local function has_trimmed_dscp(place)
  for _, ip in ipairs(place.ips) do
    if ip.dscp == mrc.prefs.dscp_trimmed or ip.dscp == mrc.prefs.dscp_trimmed_lasthop then return true end
  end
  return false
end

-- The 32 bits of the source port and of the flow label; over IPv4 there is no flow label, its half is 0.
local function entropy_value(place, pinfo)
  local label = 0
  local ip = place and place.ips[#place.ips]
  if ip and ip.version == 6 then label = ip.frame:range(ip.at + 2, 2):uint() end
  if EV_LOW_HALF_IN_SOURCE_PORT then return label * 0x10000 + pinfo.src_port end
  return pinfo.src_port * 0x10000 + label
end
