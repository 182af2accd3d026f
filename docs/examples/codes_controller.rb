class CodesController < ApplicationController
  def create
    asked = session[:asked] || {}
    again = asked["to"] == params[:to] ? { verification_id: asked["id"] } : {} # "send again": the same code
    status, answer = ask("/v1/verifications", channel: "email", to: params[:to], trust: "stranger", **again)
    session[:asked] = { "id" => answer["id"], "to" => params[:to] } if status == 202 # the address stays here: a form can be changed
    render json: answer, status: status
  end
  def check
    asked = session[:asked] || {}
    status, answer = ask("/v1/verifications/#{asked["id"]}/check", code: params[:code])
    answer["valid"] ? render(plain: "Welcome, #{asked["to"]}") : render(json: answer, status: status) # log the person in here
  end
  private def ask(path, **body)
    headers = { "Authorization" => "Bearer #{ENV["CODES_KEY"]}", "Content-Type" => "application/json", "Idempotency-Key" => SecureRandom.uuid }
    uri, body = URI(ENV["CODES_URL"] + path), body.merge(client_ip: request.remote_ip).to_json
    limits = { use_ssl: uri.scheme == "https", open_timeout: 5, read_timeout: 10 }
    answer = Net::HTTP.start(uri.host, uri.port, limits) { |http| http.post(uri.path, body, headers) }
    [answer.code.to_i, JSON.parse(answer.body)]
  rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::SSL::SSLError, JSON::ParserError => error
    [503, { "detail" => "No answer: #{error.message}" }]
  end
end
