-- What lies under the BTH: IP headers and UDP, in the frame the packet came in

local ipv4_headers, ipv6_headers, udp_headers = Field.new("ip"), Field.new("ipv6"), Field.new("udp")

local function ip_headers_before(udp)
  local found = {}
  for _, info in ipairs({ ipv4_headers() }) do found[#found + 1] = info end
  for _, info in ipairs({ ipv6_headers() }) do found[#found + 1] = info end
  local ips = {}
  for _, info in ipairs(found) do
    local frame = info.source
    if frame and info.offset + IPV4_LENGTH <= udp and udp + UDP_LENGTH <= frame:captured_len() then
      local ip = { at = info.offset, version = math.floor(frame:range(info.offset, 1):uint() / 16), frame = frame }
      if ip.version == 4 then
        ip.dscp = math.floor(frame:range(ip.at + 1, 1):uint() / 4)
        ip.length, ip.what = frame:range(ip.at + 2, 2):uint(), "IPv4"
      else
        ip.dscp = math.floor(frame:range(ip.at, 2):uint() / 64) % 64
        local length = frame:range(ip.at + 4, 2):uint()
        ip.length, ip.what = length > 0 and IPV6_LENGTH + length or 0, "IPv6"
      end
      ips[#ips + 1] = ip
    end
  end
  table.sort(ips, function(one, other) return one.at < other.at end)
  return ips
end

-- Where the packet lies and where its headers say it ends; nil when it is not one that IP and UDP carry in a frame.
local function place_in_frame(tvb, pinfo)
  local bth = tvb:offset()
  local udp = bth - UDP_LENGTH
  local ips = ip_headers_before(udp)
  if #ips == 0 then return nil end
  local frame = ips[#ips].frame
  if frame:range(udp, 2):uint() ~= pinfo.src_port or frame:range(udp + 2, 2):uint() ~= pinfo.dst_port then
    return nil
  end
  local place = { frame = frame, bth = bth, udp = udp, ips = ips, finish = frame:reported_len() }
  local function ends_at(finish, what)
    if finish <= place.finish then
      place.finish = finish
    elseif not place.short then
      place.short = ("short_packet: %d bytes less than the %s length says"):format(finish - place.finish, what)
    end
  end
  for _, ip in ipairs(ips) do
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
